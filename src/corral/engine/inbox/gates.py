"""What of a run waits for a person: gates that ask, and quotas that park."""

from __future__ import annotations

import time

from msgspec import structs

from corral.attempt.user_questions import RunQuestions
from corral.model import Entry, RunPlan
from corral.model.flow import Gate, Node
from corral.model.money import Limit, Refusal
from corral.rules.money import limits
from corral.rules.schedule.actions import Choose, Settle
from corral.rules.schedule.agent_tries import Park
from corral.rules.text import questions


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
        """Ask how it goes on with a node whose quota is used up."""
        if action.node not in self.parked:
            self._run_questions.ask(
                questions.quota_question(self._run_questions.run, action.node, action.reason, action.until, time.time())
            )
        self.parked[action.node] = action.reason

    def ask_for_money(self, plan: RunPlan, held: tuple[float, float], allowed: float, needed: float) -> None:
        """Ask whether a run may go on that is over its own budget, unless an attempt of it asked already.

        `held` is what it spent and what is reserved for it, `needed` what its open tasks are expected to cost.
        """
        own = [node.task.budget_usd for node in plan.flow.nodes if node.task.budget_usd is not None]
        usd = plan.flow.budget_usd if plan.flow.budget_usd is not None else max(own, default=None)
        if usd is None or any(entry.about == "budget" for entry in self._run_questions.waiting()):
            return
        if sum(held) + needed + limits.TINY < usd + allowed:
            return  # money was not the reason: tokens, or requests without a price, are used up
        who = limits.Spender(run=self._run_questions.run, node="", agent="", repo=plan.repo)
        refusal = Refusal(Limit(window="run", usd=usd + allowed, where="the flow"), *held, 0.0)
        more = limits.shortfall(refusal, needed)
        question = limits.budget_question(who, "", refusal, more, time.time())
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
            entry, "the run goes on" if entry.answer == "yes" else "what needs it is skipped"
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
