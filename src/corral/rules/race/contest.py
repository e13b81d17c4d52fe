"""The lanes of one node together: who is stopped before the end, whether a judge is asked, and who wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, structs

from corral.model import Attempt, AttemptRecord, Status
from corral.model.flow import Node
from corral.rules.race import early_stop, llm_judge, select, variation
from corral.rules.race.early_stop import Race
from corral.rules.schedule.agent_tries import TriesEnd

VARIED = ("held-out", "proven", "unharmed")  #: grades whose best are compared by varied inputs
LOOK_AGAIN_SECONDS = 1.0  #: while something is proven and others spend money


class Halt(Struct, frozen=True):
    """Stop an attempt that cannot win any more; its work is kept."""

    attempt: str
    node: str
    reason: str


class RaceDecision(Struct, frozen=True, kw_only=True):
    """What a node came to."""

    status: Status
    reason: str | None = None
    winner: str | None = None
    why: str | None = None
    votes: Mapping[str, float] = {}


def race(node: Node, tries: Sequence[AttemptRecord], over: Sequence[TriesEnd], spent_usd: float, now: float) -> Race:
    """Return the race as it is."""
    ended = {each.last.attempt.id for each in over if each.last}
    return Race(
        over=finalists(over),
        at_work=[each for each in tries if each.lane >= 0 and each.phase != "over" and each.attempt.id not in ended],
        how=node.select,
        grade="proven" if node.task.checks else "unchecked",
        scored=bool(node.scorers or node.judge),
        budget_usd=node.task.budget_usd,
        spent_usd=spent_usd,
        now=now,
    )


def halts(node: Node, limit_status: Race, driven: Collection[str]) -> list[Halt]:
    """Return who is to be stopped now."""
    stopped = early_stop.to_stop(limit_status)
    return [Halt(name, node.id, why) for name, why in stopped.items() if name in driven]


def finalists(over: Sequence[TriesEnd]) -> list[Attempt]:
    """Return the last attempt of each lane; one that is done and yet not accepted (`until`) is none."""
    return [
        each.last.attempt for each in over if each.last and not (each.reason and each.last.attempt.status == "done")
    ]


def survivors(over: Sequence[TriesEnd]) -> list[Attempt]:
    return [each for each in finalists(over) if select.is_proven(each)]


def decide(node: Node, over: Sequence[TriesEnd], judged: Sequence[AttemptRecord]) -> RaceDecision | None:
    """Choose the best; None if none is good enough."""
    votes = llm_judge.votes(survivors(over), judged) if judged else {}
    candidates = [structs.replace(each, votes=votes.get(each.id)) for each in finalists(over)]
    ranking = select.rank(candidates, node.select)
    if ranking.winner is None:
        return None
    unheard = "; the judge gave no clear answer" if judged and not votes else ""
    return RaceDecision(status="done", winner=ranking.winner, why=ranking.why + unheard, votes=votes)


def tie(node: Node, over: Sequence[TriesEnd], judged: Sequence[AttemptRecord]) -> tuple[Attempt, ...]:
    """Return the attempts of a race among which only the user can choose: none is proven better than the others."""
    if not node.rivals or node.select != "evidence":
        return ()
    votes = llm_judge.votes(survivors(over), judged) if judged else {}
    found = {each.id: structs.replace(each, votes=votes.get(each.id)) for each in finalists(over)}
    trees = {each.last.attempt.id: each.last.tree for each in over if each.last}
    return tuple(found[name] for name in select.undecided_attempts(list(found.values()), trees))


def to_vary(node: Node, over: Sequence[TriesEnd]) -> tuple[str, ...]:
    """Return the attempts to compare by varied inputs: the best, where they are equal so far and their work differs."""
    if not node.rivals or node.select != "evidence" or node.judge or node.scorers or not node.task.checks:
        return ()
    equal = select.equal_attempts(finalists(over))
    trees = {each.last.attempt.id: each.last.tree for each in over if each.last}
    if len(select.distinct_attempts(equal, trees)) < 2 or select.grade_of(equal[0]) not in VARIED:
        return ()
    python = any(path.endswith(".py") for each in equal for path in each.files_changed)
    asked = all(variation.of(each) for each in equal)
    return tuple(each.id for each in equal) if python and not asked else ()


def none_good(over: Sequence[TriesEnd]) -> tuple[Status, str]:
    """Say what a race came to that nobody won."""
    ranked = select.rank(finalists(over))
    reasons = {each.last.attempt.id: each.reason for each in over if each.last and each.reason}
    statuses: set[Status] = {each.last.attempt.status for each in over if each.last}
    same = statuses.pop() if len(statuses) == 1 else "failed"
    return ("failed" if same == "done" else same), ranked.why if not reasons else _words(over, ranked.order)


def _words(over: Sequence[TriesEnd], order: Sequence[str]) -> str:
    by_id = {each.last.attempt.id: each for each in over if each.last}
    named = [by_id[name] for name in order] + [each for name, each in by_id.items() if name not in order]
    words = [
        f"{each.last.attempt.agent}: {each.reason or select.not_proven(each.last.attempt)}"
        for each in named
        if each.last
    ]
    return "none is good enough: " + "; ".join(dict.fromkeys(words))
