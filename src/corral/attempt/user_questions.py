"""Questions to the user: into the inbox, by a notification, and the answer back to the caller."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from corral.config import loader
from corral.config.settings import NotifySettings
from corral.model import Entry, Question
from corral.model.errors import CorralError
from corral.model.events import Event, Listener, Noted, RunEvent, UserAsked, tell
from corral.rules.money import limits
from corral.rules.text.questions import ways
from corral.store.interface import Store
from corral.world.notify.notify import AnswerWays, notify

STORED_AS = "answer_secret"


def answer_secret(store: Store) -> str:
    """Return the secret that signs links and buttons which answer a question; made when it is first needed."""
    from corral.rules.text.signing import secret_of  # noqa: PLC0415

    with store.transaction():
        found = store.queue.value(STORED_AS)
        if found is None:
            found = secret_of(os.urandom(32))
            store.queue.set_value(STORED_AS, found)
    return found


class RunQuestions:
    """Where one run's questions are asked; each is stored before anybody waits for its answer."""

    def __init__(self, run: str, store: Store, listen: Listener) -> None:
        self.run, self._store, self._listen = run, store, listen
        self._telling: set[asyncio.Task[None]] = set()

    def ask(self, question: Question) -> Entry:
        """Put a question into the inbox, once, and let the user know; return its entry, answered or not."""
        return self._ask(question)

    def ask_for_money(self, question: Question) -> Entry:
        """Ask whether a run may spend more: one entry for each limit of a run, which offers the largest raise."""
        return self._ask(question, replaces=lambda entry: limits.offered_usd(question) > limits.offered_usd(entry))

    def _ask(self, question: Question, replaces: Callable[[Entry], bool] | None = None) -> Entry:
        with self._store.transaction():
            self._store.inbox.answer_due(time.time())  # it may have been asked, and its time be over
            entry, new = self._store.inbox.ask(question, time.time(), replaces)
            if new:
                self._note(UserAsked(entry.id, entry.text, ways(entry)), entry)
        if new:
            task = asyncio.get_running_loop().create_task(self._notify(entry))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return entry

    def entries(self) -> list[Entry]:
        """Return all that this run asked, with answers; those whose time is over have their default one."""
        self._store.inbox.answer_due(time.time())
        return self._store.inbox.of_run(self.run)

    def waiting(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.is_open]

    def next_deadline(self) -> float | None:
        """Return when the next answer comes by itself; None if nothing waits."""
        return min((entry.deadline for entry in self.waiting()), default=None)

    async def answer(self, entry: Entry) -> Entry:
        """Wait until an entry is answered: by the user, by its deadline, or because it is taken back."""
        bell = self._store.watch()
        try:
            while True:
                now = time.time()
                self._store.inbox.answer_due(now)
                found = self._store.inbox.find(entry.id)
                if found is None or not found.is_open:
                    return found or entry
                await bell.listen(min(1.0, max(0.0, found.deadline - now)))
        finally:
            bell.close()

    def withdraw(self, why: str, attempt: str | None = None) -> None:
        """Take back what is open: nobody would hear the answer."""
        if any(entry.is_open and attempt in (None, entry.attempt) for entry in self._store.inbox.of_run(self.run)):
            self._store.inbox.withdraw(self.run, why, time.time(), attempt)

    def note_outcome(self, entry: Entry, outcome: str) -> None:
        """Remember what came of an answer, and tell who watches."""
        self._store.inbox.note_outcome(entry.id, outcome)
        self._note(Noted(f"inbox {entry.id}: {entry.answer} ({entry.answered_by}); {outcome}"), entry)

    async def close(self) -> None:
        """Let notices on their way arrive."""
        if self._telling:
            await asyncio.wait(self._telling)

    async def _notify(self, entry: Entry) -> None:
        try:
            settings = loader.notify()
            troubles = await notify(entry, settings, self._answer_ways(entry, settings))
        except CorralError as error:  # settings that have become wrong
            troubles = [str(error)]
        for trouble in troubles:
            self._note(Noted(trouble), entry)

    def _answer_ways(self, entry: Entry, settings: NotifySettings) -> AnswerWays | None:
        """Return what lets the user answer by a channel; none where no setting allows it."""
        if not (settings.answer_url or settings.slack_users or settings.telegram_users):
            return None
        from corral.rules.text.signing import answer_code  # noqa: PLC0415 -- few runs need it

        secret = answer_secret(self._store)
        codes = tuple(answer_code(secret, entry, index) for index in range(len(entry.choices)))
        return AnswerWays(settings=settings, codes=codes, open_code=answer_code(secret, entry))

    def _note(self, event: Event, entry: Entry) -> None:
        self._store.note(self.run, event, at=time.time(), node=entry.node, attempt=entry.attempt)
        tell(self._listen, RunEvent(self.run, entry.node, entry.attempt, event))
