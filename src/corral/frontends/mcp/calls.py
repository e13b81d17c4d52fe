"""One call of a tool: who calls, and how it waits for a run: with progress, questions, and a cancel that stops it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path

from mcp.server import ServerRequestContext
from mcp.types import CallToolRequestParams

from corral.engine.engine import Engine
from corral.frontends.mcp import elicitation
from corral.frontends.mcp.permissions import Visitor
from corral.frontends.mcp.stdio_runs import ClientRuns
from corral.frontends.run_text import event_words
from corral.frontends.text import one_line
from corral.model import Entry, Run
from corral.model.errors import CorralError
from corral.model.events import StoredEvent

MOST_MESSAGE = 300
MOST_AT_ONCE = 5  #: messages about what came together
LEFT_TO_USER = ("waiting", "over_budget")  #: nobody drives these; an answer lets them continue


class ClientCall:
    """One call of a tool by one client."""

    def __init__(
        self, active: ClientRuns, visitor: Visitor, context: ServerRequestContext, params: CallToolRequestParams
    ) -> None:
        self.runs, self.engine, self.visitor = active, active.engine, visitor
        self._context, self._params = context, params
        self._last_sequence = 0
        self.warnings: list[str] = []  #: warnings for the client
        self._unanswered: set[str] = set()  # the user would not say

    @property
    def by(self) -> str:
        """Who asks, and the program they ask by; kept with what they order or answer."""
        client = self._context.session.client_params
        return f"{self.visitor.by} by {one_line(client.client_info.name, 60) if client else 'an MCP client'}"

    def comes_again(self) -> elicitation.Pending | None:
        """Return which question this call brings the answer to."""
        return elicitation.pending(self._params.request_state)

    async def answer_pending(self, pending: elicitation.Pending) -> bool:
        """Take the answer that this call brings along; tell whether the question is answered."""
        entry = _entry(self.engine, pending.entry)
        if entry is None:
            return True  # answered elsewhere meanwhile
        return await self._answer(entry, elicitation.read_answer(entry, self._params.input_responses))

    async def until_over(self, run: str) -> Run:
        """Wait for the end of a run that is driven here; a cancelled call stops it."""
        try:
            while True:
                await self._watch(run)
                found = self.engine.show(run)
                entry = self._question(run) if found.status in LEFT_TO_USER else None
                if entry is None:
                    return found
                if not elicitation.can_ask(self._context):
                    if not await self._continue_over_budget(entry, found):
                        return found
                elif not await self._answer(entry, await elicitation.ask(self._context, entry)):
                    return self.engine.show(run)
                if self.engine.show(run).status in LEFT_TO_USER and not self.engine.is_active(run):
                    await self.runs.resume(run)
        except asyncio.CancelledError:
            self.runs.stop(run, self.by)
            raise

    async def for_a_while(self, run: str, seconds: float, since: int | None = None) -> None:
        """Wait for a run of any process, no longer than asked for: until its end, or for the first news."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(self.engine.history.watch(run, since or 0)) as news:
                async for new in news:
                    if new and since is not None:
                        return
                    await self._tell(new)

    # --- parts of waiting

    async def _watch(self, run: str) -> None:
        """Watch until nobody drives the run; what agents at work ask meanwhile goes to the user."""
        task = self.runs.task(run)
        async with aclosing(self.engine.history.watch(run, self._last_sequence)) as news:
            async for new in news:
                await self._tell(new)
                entry = self._question(run, at_work=True)
                if entry is not None and task is not None and not task.done():
                    if not elicitation.can_ask(self._context):
                        return  # the client gets the error, and the run continues
                    await self._answer(entry, await elicitation.ask(self._context, entry))
                if task is not None and task.done():
                    break
        if task is not None:
            await asyncio.shield(task)

    async def _continue_over_budget(self, entry: Entry, run: Run) -> bool:
        """Let a run continue past its budget with a warning, where nobody can be asked.

        Unless settings say what to do, only a ceiling makes that harmless: without one nothing would ever stop it.
        """
        settings = self.engine.settings.load(Path(run.repo)).budget
        held = any(each.limit.window == "ceiling" for each in self.engine.money.standings(settings))
        warns = settings.mcp_over_budget or ("warn" if held else "refuse")
        if warns != "warn" or entry.about != "budget" or len(entry.choices) < 2:  # a ceiling offers no more
            return False
        self.warnings.append(
            f"warning: {entry.text} It continued, up to the ceiling, because nobody could be asked ({entry.choices[0]})"
        )
        return await self._answer(entry, entry.choices[0])

    async def _answer(self, entry: Entry, words: str | None) -> bool:
        if words is None:
            self._unanswered.add(entry.id)
            return False
        try:
            await self.engine.inbox.answer(entry.id, words, self.by, here=True)
        except CorralError:
            return _entry(self.engine, entry.id) is None  # someone else was quicker: that counts
        return True

    def _question(self, run: str, *, at_work: bool = False) -> Entry | None:
        """Return what this run waits for an answer to; at work only what its agents ask, for others leave it first."""
        for entry in self.engine.inbox.entries():
            asked = entry.kind == "question" if at_work else entry.about not in elicitation.NOT_ASKED
            if entry.run == run and asked and entry.id not in self._unanswered:
                return entry
        return None

    async def _tell(self, new: Sequence[StoredEvent]) -> None:
        """Say how far it is: the last few of what is new that have words."""
        worded = ((stored, words) for stored in reversed(new) if (words := event_words(stored.event())))
        for stored, words in reversed(list(itertools.islice(worded, MOST_AT_ONCE))):
            place = f"{stored.node}: " if stored.node else ""
            message = one_line(place + words, MOST_MESSAGE)
            await self._context.session.report_progress(float(stored.seq), None, message)
        if new:
            self._last_sequence = new[-1].seq


def _entry(engine: Engine, number: str) -> Entry | None:
    return next((entry for entry in engine.inbox.entries() if entry.id == number), None)
