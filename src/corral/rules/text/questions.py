"""What a user is asked, and how their words are understood; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from corral.model import YES_NO, Attempt, Entry, Question, RunPlan
from corral.model.flow import agent_and_model
from corral.model.money import Limit
from corral.model.server import AccessScope
from corral.rules.money import limits as budget
from corral.rules.race import variation

DAY = 86400.0
UNANSWERED = "nobody answered: decide it yourself"
NO_WINNER = "none"  #: of a race: the answer that takes no attempt
SHORT = {"y": "yes", "n": "no"}


def match_answer(choices: Sequence[str], text: str) -> str | None:
    """Return which answer is meant: a choice, whole or its beginning, or any words where there is no choice."""
    said = text.strip()
    if not choices:
        return said or None
    low = SHORT.get(said.lower(), said.lower()) if {*YES_NO} <= {*choices} else said.lower()
    exact = [choice for choice in choices if choice.lower() == low]
    near = exact or [choice for choice in choices if low and choice.lower().startswith(low)]
    return near[0] if len(near) == 1 else None


def scope_for(entry: Entry, words: str, plan: RunPlan, limits: Iterable[Limit]) -> AccessScope:
    """Return what a token must be allowed to do to give this answer: what follows from it may be more than the run."""
    if entry.about in ("merge", "result"):
        return "merge"
    if entry.about in ("gate", "choice"):
        merges = plan.merge == "auto" or any(node.kind == "merge" for node in plan.flow.nodes)
        return "merge" if merges else "run"
    if entry.about != "budget" or match_answer(entry.choices, words) == budget.STOP:
        return "run"
    own = entry.key.split("/")[2] in budget.OF_RUN and not any(each.window == "run" for each in limits)
    return "run" if own else "admin"  # a raise lifts every limit of a run, also one that was set for all runs


def ways(entry: Entry) -> str:
    """Say what may be answered, as it is typed."""
    return "|".join(entry.choices) if entry.choices else "TEXT"


def gate_question(about: tuple[str, str, int], text: str, default: str, deadline: float) -> Question:
    """Ask whether a flow may continue past a gate; `about` is its run, its node, and how often it was put back."""
    run, node, epoch = about
    then = "the nodes that need it continue" if default == "yes" else "the nodes that need it are skipped"
    return Question(
        key=f"{run}/{node}/{epoch}/gate" if epoch else f"{run}/{node}/gate",
        run=run,
        node=node,
        kind="approval",
        about="gate",
        text=text,
        context=f"the gate `{node}`; if nobody answers: {default}, {then}",
        default=default,
        deadline=deadline,
    )


def choice_question(about: tuple[str, str], attempts: Sequence[Attempt], deadline: float) -> Question:
    """Ask which attempt of a race to take where none is proven better; `about` is its run and node."""
    run, node = about
    names = ", ".join(f"{each.id} ({agent_and_model(each.agent, each.model)})" for each in attempts)
    differ = f"{words}; " if (words := variation.dispute(attempts)) else ""
    sizes = "; ".join(f"{each.id} +{each.insertions} -{each.deletions}" for each in attempts)
    return Question(
        key=f"{run}/{node}/choice/" + "+".join(each.id.rpartition("-")[2] for each in attempts),
        run=run,
        node=node,
        kind="approval",
        about="choice",
        text=f"none is proven better: {differ}choose one of {names}",
        context=f"{sizes}. {_why_asked(attempts)}"
        f" Compare them: corral compare {run}. If nobody answers: no winner, and the work stays on its branches",
        choices=(*(each.id for each in attempts), NO_WINNER),
        default=NO_WINNER,
        deadline=deadline,
    )


def _why_asked(attempts: Sequence[Attempt]) -> str:
    if variation.is_split(attempts):
        return "Their checks pass, but they answer varied inputs of the tests differently, and no majority agrees."
    return "Their checks pass with and without the change, so they do not say which is right."


def no_winner(entry: Entry) -> str:
    """Say why a race that waited for a choice has no winner."""
    who = "nobody chose one by the deadline" if entry.answered_by == "deadline" else f"{entry.answered_by} chose none"
    return f"none is proven better, and {who}: {', '.join(entry.choices[:-1])}"


def quota_question(run: str, node: str, reason: str, until: float | None, now: float) -> Question:
    """Ask how a run continues whose agent has used up its quota."""
    back = until if until is not None and until > now else now + DAY
    moment = datetime.fromtimestamp(back, UTC).isoformat(timespec="seconds")
    return Question(
        key=f"{run}/{node}/limit/{back:.0f}",
        run=run,
        node=node,
        kind="approval",
        about="limit",
        text=f"{reason}. Continue?",
        context=f"yes: it may continue now, with `corral resume {run}`; no: the run is stopped; after {moment}: yes",
        default="yes",
        deadline=back,
    )


def agent_question(
    about: tuple[str, str, str], ask: str, question: str, choices: Sequence[str], default: str
) -> Question:
    """Pass on what an agent at work asks; `about` is its run, node and attempt. The deadline is the engine's to set."""
    run, node, attempt = about
    return Question(
        key=f"{attempt}/ask/{ask}",
        run=run,
        node=node,
        attempt=attempt,
        kind="question",
        about="tool" if choices else "question",
        text=question,
        choices=tuple(choices),
        default=default,
        deadline=0.0,
    )
