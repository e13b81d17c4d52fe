"""The inbox: what waits for the user, the gates and quotas of a run that do, and what follows from an answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral.attempt.user_questions import RunQuestions
from corral.engine.budget.money import Money
from corral.engine.context import Context, Driver, LocalRuns
from corral.engine.merge import open_conflicts
from corral.engine.merge.api import Merges
from corral.engine.merge.open_conflicts import OpenConflicts
from corral.engine.planning import redo
from corral.engine.views import run_document, run_status
from corral.engine.views.run_status import ABORT
from corral.model import OPEN, Entry, Run, RunPlan
from corral.model.errors import BadRequest, CorralError
from corral.model.flow import Gate, Node
from corral.model.inbox import RESUME_IT
from corral.model.merge import MergeRecord
from corral.model.money import Limit, Refusal
from corral.model.server import ServerRecord
from corral.rules.merge import merge as rules
from corral.rules.money import limits as budget
from corral.rules.schedule.actions import Choose, Settle
from corral.rules.schedule.agent_tries import Park
from corral.rules.text import questions
from corral.rules.text.questions import match_answer, ways
from corral.store.interface import Store

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
        """Return what to type for a run that waits for a user, as it is now."""
        now = time.time()
        waiting = [entry for entry in self._context.store.inbox.of_run(run) if entry.is_open and entry.deadline > now]
        return [
            budget.hint(entry) if entry.about == "budget" else f"corral answer {entry.id} {ways(entry)}"
            for entry in waiting
        ]

    async def answer(self, number: str, text: str, by: str, *, here: bool = False) -> Entry:
        """Answer what waits in the inbox; a process that drives its run hears it at once. What came of it is on it.

        A run that may spend more continues by itself where a server takes it up, unless it is to continue `here`.
        """
        entry = take_answer(self._context.store, number, text, by)
        if entry.about == "limit" and entry.answer == "no":
            await self._driver.stop(entry.run, by)
        if entry.about == "merge":
            await self._settle_merge(entry)
        if entry.about == "result":
            return await self._settle_result(entry)
        self._local_runs.poke(entry.run)
        if entry.about == "choice" and self._last_wait(entry.run):
            return await self._end_of_race(entry)
        answered = note_consequence(self._context.store, self._money, entry)
        return hand_to_server(self._context.store, answered) if entry.about == "budget" and not here else answered

    def ask_result(self, run: Run) -> Entry:
        """Ask whether the result of a run is merged, once; where that was answered before, once more."""
        store, question = self._context.store, rules.result_question(run, time.time())
        with store.transaction():
            store.inbox.answer_due(time.time())
            if (before := store.inbox.of_key(question.key)) and not before.is_open:
                store.inbox.free(question.key)
            return store.inbox.ask(question, time.time())[0]

    def close_result(self, entry: Entry, answer: str, by: str) -> bool:
        """Store the answer to whether a result is merged; the caller carries it out. False: it has one already."""
        return self._context.store.inbox.answer(entry.id, answer, by, time.time())

    def choices(self, run: str) -> dict[str, str]:
        """Return the attempts of races that wait for a user to choose, each with the number of its question."""
        now = time.time()
        own = [entry for entry in self._context.store.inbox.of_run(run) if entry.about == "choice" and entry.is_open]
        return {name: entry.id for entry in own if entry.deadline > now for name in entry.choices}

    def choosing_needs(self, run: str) -> AccessScope:
        """Return what a token must be allowed to do to choose among the attempts of a run: that may merge one."""
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
        if not self._local_runs.is_orphaned(run) or _server_of(store) is not None:
            return False
        open_nodes = [node for node in store.nodes(run) if node.status in OPEN]
        return len(open_nodes) == 1 and not any(entry.is_open for entry in store.inbox.of_run(run))

    async def _end_of_race(self, entry: Entry) -> Entry:
        """Let a run end whose last race a user has just decided; nothing more is started for it."""
        await self._driver.resume(entry.run, _ignore_event)
        return self._context.store.inbox.find(entry.id) or entry

    async def go_on(self, entry: Entry) -> Entry:
        """Continue a run that waits for nothing else, in a process of its own; its entry gets the outcome."""
        if not entry.needs_resume:
            return entry
        await self._local_runs.detach(entry.run)
        self._context.store.inbox.note_outcome(entry.id, f"it continues; watch it: corral logs -f {entry.run}")
        return self._context.store.inbox.find(entry.id) or entry

    async def _settle_result(self, entry: Entry) -> Entry:
        """Merge a result, if that was the answer."""
        from corral.model.merge import MergeRequest  # noqa: PLC0415

        store, outcome = self._context.store, "not merged; the work stays on its branch"
        if entry.answer == "merge":
            try:
                record = await self._merges.merge(MergeRequest(run=entry.run))
            except CorralError as error:
                store.inbox.note_outcome(entry.id, f"not merged: {str(error).splitlines()[0]}")
                raise
            outcome = f"{record.state} into {record.into}"
        store.inbox.note_outcome(entry.id, outcome)
        return store.inbox.find(entry.id) or entry

    async def _settle_merge(self, entry: Entry) -> None:
        """Carry out a user's decision on a merge in conflict; a run that is not over does it itself."""
        from corral.model.merge import MergeRequest  # noqa: PLC0415

        store = self._context.store
        if store.run(entry.run).status in OPEN:
            return
        if entry.answer == ABORT:
            open_conflicts.end_expired(store, entry.run)
            return
        waits = next((each for each in store.merges.list_conflicting(entry.run) if _key(each) == entry.key), None)
        try:
            record = await self._merges.merge(MergeRequest(run=entry.run, into=waits.into if waits else None))
        except CorralError as error:
            store.inbox.note_outcome(entry.id, f"not merged: {str(error).splitlines()[0]}")
            if waits and waits in store.merges.list_conflicting(entry.run):  # it still waits, so someone is asked again
                OpenConflicts(store, entry.run).keep(waits)
            raise
        store.inbox.note_outcome(entry.id, f"{record.state} into {record.into}")


def _ignore_event(_: object) -> None:
    """Hear nothing: the answer's outcome says what came of it."""


def _key(record: MergeRecord) -> str:
    return rules.question(record, 0.0).key


def take_answer(store: Store, number: str, text: str, by: str) -> Entry:
    """Store an answer; return the entry as it is now."""
    now = time.time()
    store.inbox.answer_due(now)
    entry = store.inbox.find(number)
    if entry is None:
        raise BadRequest(f"nothing in the inbox is called `{number}`", hint="see `corral inbox`")
    said = _attempt_of(store, entry, text) if entry.about == "choice" else text
    meant = match_answer(entry.choices, said)
    more = entry.about == "budget" and budget.offers_more(entry)
    if more:  # besides its choices: yes, no, any amount
        meant = text.strip() if budget.amount(text, 1.0) is not None else None
    if entry.is_open and meant is None:
        ways = (*entry.choices, "an amount in USD") if more else entry.choices
        hint = f"say one of: {', '.join(ways)}"
        if entry.about == "budget" and not more:
            hint += f"; to continue: {budget.hint(entry)}"
        raise BadRequest(f"`{text}` is no answer to: {entry.text}", hint=hint)
    if meant is None or not store.inbox.answer(number, meant, by, now):
        taken = store.inbox.find(number) or entry
        words = f"{taken.answer} ({taken.answered_by})" if taken.answer else taken.outcome
        raise BadRequest(f"{number} is answered already: {words}", hint="an answer counts once")
    return store.inbox.find(number) or entry


def _attempt_of(store: Store, entry: Entry, text: str) -> str:
    """Return the attempt that an answer names: by its id, its number, or its agent where only one is of that."""
    if match_answer(entry.choices, text) or any(each.lower() == text.strip().lower() for each in entry.choices):
        return text
    return rules.attempt_named(run_document.build(store, entry.run), text, entry.choices) or text


def note_consequence(store: Store, money: Money, entry: Entry) -> Entry:
    """Say what follows from an answer if no process waits for it; one that waits says it itself."""
    status, driven = _answer_state(store, entry.run)
    if entry.about == "budget" and (words := money.allow(entry)):
        store.inbox.note_outcome(entry.id, words)
        return store.inbox.find(entry.id) or entry
    if not driven and (status in OPEN or status in ("limited", "over_budget")):
        store.inbox.note_outcome(entry.id, _by_itself(store, entry) or f"{RESUME_IT} {entry.run}")
    return store.inbox.find(entry.id) or entry


def hand_to_server(store: Store, entry: Entry) -> Entry:
    """Leave a run that may spend more to the server of its store, if there is one."""
    server = _server_of(store)
    if not entry.needs_resume or server is None:
        return entry
    with store.transaction():
        redo.wake_up(store, entry.run)
        store.queue.put_back(entry.run, store.run(entry.run).plan.priority, entry.answered_by or "", time.time())
        store.inbox.note_outcome(entry.id, _server_words(server))
    return store.inbox.find(entry.id) or entry


def _by_itself(store: Store, entry: Entry) -> str | None:
    """Say that the server continues, as it does with a run all of whose gates are answered."""
    server = _server_of(store)
    if entry.about not in ("gate", "choice") or server is None or not server.resumes:
        return None
    return None if any(each.is_open for each in store.inbox.of_run(entry.run)) else _server_words(server)


def _server_of(store: Store) -> ServerRecord | None:
    """Return a server that continues runs of this store, on any machine."""
    return next(iter(store.queue.servers(time.time())), None)


def _server_words(server: ServerRecord) -> str:
    return f"the server at {server.address} continues it"


def _answer_state(store: Store, run: str) -> tuple[str, bool]:
    record = store.run(run)
    return record.status, not run_status.is_orphaned(record.owner)


class Gates:
    """The questions of one run that no attempt asks."""

    def __init__(self, run_questions: RunQuestions) -> None:
        self._run_questions = run_questions
        self._open: dict[str, str] = {}  # gate -> its entry
        self._asked: dict[str, str] = {}  # entry -> what a user reads of it, where it is no gate
        self.parked: dict[str, str] = {}  # node -> why
        self.answered_meanwhile = False

    @property
    def waiting(self) -> bool:
        return bool(self._open or self.parked)

    def ask(self, node: Node, epoch: int) -> None:
        """Ask what a gate asks; where it was answered while nobody drove the run, that counts."""
        gate = node.gate or Gate()
        deadline = time.time() + gate.deadline_seconds
        question = questions.gate_question(
            (self._run_questions.run, node.id, epoch), node.task.prompt, gate.default, deadline
        )
        entry = self._run_questions.ask(question)
        self._open[node.id] = entry.id
        self.answered_meanwhile |= not entry.is_open

    def choose(self, action: Choose, wait_seconds: float) -> str:
        """Ask which attempt of a race to take; return what is asked, in one line."""
        if number := self._open.get(action.node):
            return self._asked[number]
        question = questions.choice_question(
            (self._run_questions.run, action.node), action.attempts, time.time() + wait_seconds
        )
        entry = self._run_questions.ask(question)
        self._open[action.node] = entry.id
        self._asked[entry.id] = f"{entry.text} (corral answer {entry.id} {questions.ways(entry)})"
        self.answered_meanwhile |= not entry.is_open
        return self._asked[entry.id]

    def park(self, action: Park) -> None:
        """Ask how to continue a node whose quota is used up."""
        if action.node not in self.parked:
            self._run_questions.ask(
                questions.quota_question(self._run_questions.run, action.node, action.reason, action.until, time.time())
            )
        self.parked[action.node] = action.reason

    def ask_for_money(self, plan: RunPlan, held: tuple[float, float], allowed: float, needed: float) -> None:
        """Ask whether a run may continue that is over its own budget, unless an attempt of it asked already.

        `held` is what it spent and what is reserved for it, `needed` what its open tasks are expected to cost.
        """
        own = [node.task.budget_usd for node in plan.flow.nodes if node.task.budget_usd is not None]
        usd = plan.flow.budget_usd if plan.flow.budget_usd is not None else max(own, default=None)
        if usd is None or any(entry.about == "budget" for entry in self._run_questions.waiting()):
            return
        if sum(held) + needed + budget.TINY < usd + allowed:
            return  # money was not the reason: tokens, or requests without a price, are used up
        who = budget.Spender(run=self._run_questions.run, node="", agent="", repo=plan.repo)
        refusal = Refusal(Limit(window="run", usd=usd + allowed, where="the flow"), *held, 0.0)
        more = budget.shortfall(refusal, needed)
        question = budget.budget_question(who, "", refusal, more, time.time())
        self._run_questions.ask_for_money(structs.replace(question, node=None, attempt=None))

    def take_answered(self) -> list[Settle]:
        """Return the gates that were answered since."""
        self.answered_meanwhile = False
        if not self._open:
            return []
        entries = {entry.id: entry for entry in self._run_questions.entries()}
        over = [
            (node, entry) for node, number in self._open.items() if (entry := entries.get(number)) and not entry.is_open
        ]
        for node, _ in over:
            del self._open[node]
        return [self._settle(node, entry) for node, entry in over]

    def next_deadline(self) -> float | None:
        return self._run_questions.next_deadline() if self._open else None

    def words(self) -> str:
        """Say what is waited for."""
        return next(iter(self.parked.values()), None) or "; ".join(
            self._asked.get(number) or f"`{node}` waits for an answer: corral answer {number} yes|no"
            for node, number in self._open.items()
        )

    async def close(self) -> None:
        await self._run_questions.close()

    def withdraw(self, why: str) -> None:
        self._run_questions.withdraw(why)

    def _settle(self, node: str, entry: Entry) -> Settle:
        if entry.about == "choice":
            return self._settle_race(node, entry)
        words = f"{entry.answer}, by {entry.answered_by}"
        self._run_questions.note_outcome(
            entry, "the run continues" if entry.answer == "yes" else "what needs it is skipped"
        )
        if entry.answer == "yes":
            return Settle(node, "done", why=entry.answer)
        return Settle(node, "skipped", words, why=entry.answer)

    def _settle_race(self, node: str, entry: Entry) -> Settle:
        """Settle a race whose winner only a user could choose."""
        if entry.answer and entry.answer != questions.NO_WINNER:
            self._run_questions.note_outcome(entry, f"{entry.answer} is the winner of `{node}`")
            why = f"chosen by {entry.answered_by}: none was proven better"
            return Settle(node, "done", winner=entry.answer, why=why)
        self._run_questions.note_outcome(entry, f"`{node}` has no winner")
        return Settle(node, "failed", questions.no_winner(entry))
