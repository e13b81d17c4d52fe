"""One turn: a run followed for the client until it is over or waits, its questions asked meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from corral.engine.engine import Engine, Watch
from corral.frontends.acp.progress import ProgressReport
from corral.frontends.acp.questions import NOT_ASKED, Asker
from corral.frontends.acp.reports import question_line, report
from corral.frontends.acp.updates import Updates
from corral.model import OPEN, Entry, Run
from corral.model.errors import CorralError
from corral.model.events import StoredEvent

LOOK_SECONDS = 1.0
LEFT_TO_USER = ("waiting", "over_budget")  #: nobody drives these; an answer lets them continue


class Watcher(Protocol):
    """For whom a run is followed."""

    engine: Engine
    updates: Updates
    asker: Asker | None  #: None: nobody is asked, this is no turn

    @property
    def by(self) -> str: ...


class FollowedRun:
    """A run that a client watches, whichever process drives it."""

    def __init__(self, client: Watcher, run: str, after: int = 0) -> None:
        self._client, self._engine, self.run, self._after = client, client.engine, run, after
        self.progress = ProgressReport(client.engine, client.updates, run)
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._unanswered: set[str] = set()  # nobody answered them here
        self._given: set[str] = set()  # answered here, and being stored
        self._continued: set[str] = set()  # questions after whose answer the run was continued
        self.stopping = False
        self.detached = False  #: the client has left; the run continues
        self._listening: asyncio.Future[None] | None = None

    async def follow(self) -> Run:
        """Tell the client what happens until the run is over, or only a user can continue it."""
        bell = self._engine.changes()
        try:
            while True:
                self.progress.take(self._new_events())  # before all else: an agent's words are shown at once
                status = self._engine.history.status(self.run)
                self._ask_and_withdraw()
                if self.detached or status not in (*OPEN, *LEFT_TO_USER):
                    self.progress.take(self._new_events())  # what came between the two looks
                    break
                if not self._questions and self._is_left():
                    self.progress.take(self._new_events())
                    self._ask_and_withdraw()  # its process may have asked just before it left
                    if not self._questions and not await self._continue_answered():
                        break
                await self._listen(bell)
        finally:
            bell.close()
            await self._withdraw_all()
        run = self._engine.show(self.run)
        if run.status not in OPEN:
            self.progress.end(run)
        return run

    async def stop(self) -> None:
        """Stop the run and keep its work; `follow` ends by that."""
        self.stopping = True
        await self._withdraw_all()
        await self._engine.stop(self.run, self._client.by)

    def detach(self) -> None:
        """Follow the run no longer."""
        self.detached = True
        if self._listening is not None:
            self._listening.cancel()

    def tell_end(self, run: Run) -> None:
        self._client.updates.say(report(self._engine, run))

    # --- parts

    async def _listen(self, bell: Watch) -> None:
        self._listening = asyncio.ensure_future(bell.listen(LOOK_SECONDS))
        try:
            await self._listening
        except asyncio.CancelledError:
            if not self.detached:
                raise
        finally:
            self._listening = None

    def _new_events(self) -> Sequence[StoredEvent]:
        events = list(self._engine.history.events(self.run, self._after))
        self._after = events[-1].seq if events else self._after
        return events

    def _is_left(self) -> bool:
        """Return whether nothing drives the run, and nothing is about to."""
        if self._engine.is_active(self.run):
            return False
        queued = self._engine.history.status(self.run) == "queued"
        return not (queued and self._engine.active_runs.server())

    async def _continue_answered(self) -> bool:
        """Continue a run that was left with a question, once that is answered, here or elsewhere."""
        if self.stopping or self._client.asker is None:
            return False
        for entry in self._engine.inbox.entries(whole=True):
            if entry.run != self.run or entry.is_open or entry.id in self._continued:
                continue
            self._continued.add(entry.id)
            with contextlib.suppress(CorralError):  # another process continues it already
                await self._engine.inbox.go_on(entry)
                if self._waits_for_nobody():  # its process left while the answer was stored
                    await self._engine.active_runs.detach(self.run)
            if self._engine.is_active(self.run) or not self._waits_for_nobody():
                return True
        return False

    def _waits_for_nobody(self) -> bool:
        """Return whether the run waits although everything that it asked is answered, and nothing drives it."""
        if self._engine.history.status(self.run) != "waiting" or self._engine.is_active(self.run):
            return False
        return not any(entry.run == self.run for entry in self._engine.inbox.entries())

    def _ask_and_withdraw(self) -> None:
        """Ask what is new in the inbox, and withdraw what was answered elsewhere."""
        waiting = {entry.id: entry for entry in self._engine.inbox.entries() if entry.run == self.run}
        for number, task in list(self._questions.items()):
            if task.done():
                del self._questions[number]
            elif number not in waiting and number not in self._given:
                task.cancel()
        asker = self._client.asker
        if asker is None or self.stopping:
            return
        for number, entry in waiting.items():
            if number in self._questions or number in self._unanswered or entry.about in NOT_ASKED:
                continue
            if asker.can_ask(entry):
                self._questions[number] = asyncio.create_task(self._ask(asker, entry))
            else:
                self._unanswered.add(number)
                self._client.updates.say(question_line(entry) + "\n\n")

    async def _ask(self, asker: Asker, entry: Entry) -> None:
        words = await asker.ask(entry)
        if words is None:
            self._unanswered.add(entry.id)
            self._client.updates.say(f"Not answered here; it stays in the inbox. {question_line(entry)}\n\n")
            return
        self._given.add(entry.id)
        try:
            await self._engine.inbox.answer(entry.id, words, self._client.by)
        except CorralError as error:
            self._unanswered.add(entry.id)
            if any(each.id == entry.id for each in self._engine.inbox.entries()):  # else someone else was quicker
                self._client.updates.say(f"{error} {error.hint}\n\n".strip())

    async def _withdraw_all(self) -> None:
        tasks = list(self._questions.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._questions.clear()
