"""What waits for a person, and what follows from their answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from corral.engine.budget.money import Money
from corral.engine.context import Context, Driver, LocalRuns
from corral.engine.inbox import answers
from corral.engine.merge import expired_conflicts
from corral.engine.merge.api import Merges
from corral.engine.merge.open_conflicts import OpenConflicts
from corral.engine.views.run_status import ABORT
from corral.model import OPEN, Entry, Run
from corral.model.errors import CorralError
from corral.model.merge import MergeRecord
from corral.rules.merge import merge as rules
from corral.rules.money import limits as budget
from corral.rules.text.questions import ways

if TYPE_CHECKING:
    from corral.model.server import AccessScope


class Inbox:
    """The inbox of one store."""

    def __init__(self, context: Context, driver: Driver, local_runs: LocalRuns, merges: Merges, money: Money) -> None:
        self._context, self._driver, self._local_runs = context, driver, local_runs
        self._merges, self._money = merges, money

    def entries(self, *, whole: bool = False) -> list[Entry]:
        """Return what waits for the user; the whole inbox has what was answered besides, newest first."""
        store, now = self._context.store, time.time()
        if whole:
            return [entry.as_of(now) for entry in store.inbox.newest(1000)]
        return [entry for entry in store.inbox.waiting() if entry.deadline > now]

    def over_budget(self) -> list[str]:
        """Return the runs that ask whether they may spend more."""
        return list(dict.fromkeys(entry.run for entry in self.entries() if entry.about == "budget"))

    def needs(self, number: str, words: str) -> AccessScope:
        """Return what a token must be allowed to do to give this answer."""
        from corral.rules.text.questions import scope_for  # noqa: PLC0415

        entry = next((each for each in self.entries() if each.id == number), None)
        if entry is None:
            return "run"
        plan = self._context.store.run(entry.run).plan
        settings = self._context.settings.load(Path(plan.repo)).budget
        limits = [each.limit for each in self._money.standings(settings)]
        return scope_for(entry, words, plan, limits)

    def commands(self, run: str) -> list[str]:
        """Return what to type for a run that waits for a person, as it stands now."""
        now = time.time()
        waiting = [entry for entry in self._context.store.inbox.of_run(run) if entry.is_open and entry.deadline > now]
        return [
            budget.hint(entry) if entry.about == "budget" else f"corral answer {entry.id} {ways(entry)}"
            for entry in waiting
        ]

    async def answer(self, number: str, text: str, by: str, *, here: bool = False) -> Entry:
        """Answer what waits in the inbox; a process that drives its run hears it at once. What came of it is on it.

        A run that may spend more goes on by itself where a server takes it up, unless it is to go on `here`.
        """
        entry = answers.take(self._context.store, number, text, by)
        if entry.about == "limit" and entry.answer == "no":
            await self._driver.stop(entry.run, by)
        if entry.about == "merge":
            await self._settle_merge(entry)
        self._local_runs.poke(entry.run)
        if entry.about == "choice" and self._last_wait(entry.run):
            return await self._end_of_race(entry)
        told = answers.note_consequence(self._context.store, self._money, entry)
        return answers.hand_to_server(self._context.store, told) if entry.about == "budget" and not here else told

    def choices(self, run: str) -> dict[str, str]:
        """Return the attempts of races that wait for a user to choose, each with the number of its question."""
        now = time.time()
        own = [entry for entry in self._context.store.inbox.of_run(run) if entry.about == "choice" and entry.is_open]
        return {name: entry.id for entry in own if entry.deadline > now for name in entry.choices}

    def choosing_needs(self, run: str) -> AccessScope:
        """Return what a token must be allowed to do to choose among the attempts of a run: that may land one."""
        found = {self.needs(number, "") for number in self.choices(run).values()}
        return "merge" if "merge" in found else "run"

    async def take_choice(self, run: Run, named: str, by: str) -> bool:
        """Answer a race that waits for a user to choose, with this attempt; return whether one asked for it."""
        asked = self.choices(run.run) if run.status in OPEN else {}
        if not asked:
            return False
        attempts = [each.id for node in run.nodes for each in node.attempts]
        attempt = rules.attempt_named(run, named, list(asked)) or rules.attempt_named(run, named, attempts)
        if attempt is not None and attempt not in asked:  # one with the same files stands for it
            trees = {each.attempt.id: each.tree for each in self._context.store.attempts(run.run)}
            attempt = next((each for each in asked if trees.get(each) and trees[each] == trees.get(attempt)), None)
        if attempt is None:
            return False
        await self.answer(asked[attempt], attempt, by)
        return True

    def _last_wait(self, run: str) -> bool:
        """Tell whether nobody drives a run and nothing of it is left to do but to take in an answer."""
        store = self._context.store
        if not self._local_runs.is_orphaned(run) or self._local_runs.server() is not None:
            return False
        open_nodes = [node for node in store.nodes(run) if node.status in OPEN]
        return len(open_nodes) == 1 and not any(entry.is_open for entry in store.inbox.of_run(run))

    async def _end_of_race(self, entry: Entry) -> Entry:
        """Let a run end whose last race a user has just decided; nothing more is started for it."""
        await self._driver.resume(entry.run, _ignore_event)
        return self._context.store.inbox.find(entry.id) or entry

    async def go_on(self, entry: Entry) -> Entry:
        """Go on, in a process of its own, with a run that waits for nothing else; its entry tells what came of it."""
        if not entry.outcome.startswith(answers.GO_ON):
            return entry
        await self._local_runs.detach(entry.run)
        self._context.store.inbox.note_outcome(entry.id, f"it goes on; watch it: corral logs -f {entry.run}")
        return self._context.store.inbox.find(entry.id) or entry

    async def _settle_merge(self, entry: Entry) -> None:
        """Carry out what a person wants of a merge that is in conflict; a run that is not over does it itself."""
        from corral.model.merge import MergeRequest  # noqa: PLC0415

        store = self._context.store
        if store.run(entry.run).status in OPEN:
            return
        if entry.answer == ABORT:
            expired_conflicts.end(store, entry.run)
            return
        waits = next((each for each in store.merges.conflicting(entry.run) if _key(each) == entry.key), None)
        try:
            record = await self._merges.merge(MergeRequest(run=entry.run, into=waits.into if waits else None))
        except CorralError as error:
            store.inbox.note_outcome(entry.id, f"not merged: {str(error).splitlines()[0]}")
            if waits and waits in store.merges.conflicting(entry.run):  # it still waits, so somebody is asked again
                OpenConflicts(store, entry.run).keep(waits)
            raise
        store.inbox.note_outcome(entry.id, f"{record.state} into {record.into}")


def _ignore_event(_: object) -> None:
    """Hear nothing: the answer's outcome says what came of it."""


def _key(record: MergeRecord) -> str:
    return rules.question(record, 0.0).key
