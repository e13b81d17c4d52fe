"""The attempts of a run side by side: what each proved, what it changed, what it cost, and which place it took."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views import run_document
from corral.model import Attempt, AttemptRecord, Cost, Evidence, NodeState, Tally
from corral.model.flow import Node
from corral.rules.race import select, variation
from corral.store.interface import Store

UNDECIDED = "none is proven better: only you can choose"
NOT_CHOSEN = "none was proven better, and another was chosen"


class ComparedCheck(Struct, frozen=True, kw_only=True):
    """A check at the base and on the result; `before` is null where it was not run at the base."""

    command: str
    before: bool | None
    after: bool
    tests_before: Tally | None
    tests_after: Tally | None
    new_failures: tuple[str, ...]
    old_failures: tuple[str, ...]
    flaky: bool
    note: str


class ComparedAttempt(Struct, frozen=True, kw_only=True):
    """One attempt, at its place."""

    place: int
    attempt: str
    agent: str
    model: str | None
    status: str
    evidence: Evidence | None  #: null: it is not over, or its checks fail
    winner: bool
    tries: int
    checks: tuple[ComparedCheck, ...]
    new_failures: int
    files_changed: int
    insertions: int
    deletions: int
    outside: tuple[str, ...]
    cost: Cost
    seconds: float
    scores: dict[str, float]
    votes: float | None
    reason: str


class ComparedNode(Struct, frozen=True, kw_only=True):
    node: str
    status: str
    select: select.How
    winner: str | None
    why: str
    attempts: tuple[ComparedAttempt, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    run: str
    nodes: tuple[ComparedNode, ...]


def compare(store: Store, run: str) -> Comparison:
    """Rank what the lanes of each node came to."""
    plan, records = store.run(run).plan, store.attempts(run)
    known = {node.id: node for node in plan.flow.nodes}
    nodes: list[ComparedNode] = []
    for state in store.nodes(run):
        own = [each for each in records if each.node == state.id and each.lane >= 0 and not each.void]
        node = known.get(state.id) or known.get(state.id.rpartition(".")[0])
        if own:
            nodes.append(_node(node, state, own))
    return Comparison(run=run, nodes=tuple(nodes))


def _node(node: Node | None, state: NodeState, own: list[AttemptRecord]) -> ComparedNode:
    how: select.How = node.select if node else "evidence"
    places: dict[int, list[AttemptRecord]] = {}
    for record in own:
        places.setdefault(record.lane, []).append(record)
    last = {tries[-1].attempt.id: (tries[-1].attempt, len(tries)) for tries in places.values()}
    candidates = [attempt for attempt, _ in last.values()]
    ranking = select.rank(candidates, how)
    trees = {tries[-1].attempt.id: tries[-1].tree for tries in places.values()}
    equal = select.undecided_attempts(candidates, trees) if how == "evidence" and len(places) > 1 else ()
    dispute = variation.dispute([last[name][0] for name in equal])
    undecided = f"{UNDECIDED}; {dispute}" if dispute else UNDECIDED
    reasons = {**ranking.reasons, **dict.fromkeys(equal, NOT_CHOSEN if state.winner else undecided)}
    if state.winner is not None and state.winner in equal:
        reasons[state.winner] = state.why or undecided
    return ComparedNode(
        node=state.id,
        status=state.status,
        select=how,
        winner=state.winner,
        why=(state.why if state.winner else None) or (undecided if equal else ranking.why),
        attempts=tuple(
            _row(place, *last[attempt], reasons[attempt], state.winner == attempt)
            for place, attempt in enumerate(ranking.order, 1)
        ),
    )


def _row(place: int, attempt: Attempt, tries: int, reason: str, won: bool) -> ComparedAttempt:  # noqa: FBT001
    checks = tuple(
        ComparedCheck(
            command=check.command,
            before=check.before.passed if check.before else None,
            after=check.passed,
            tests_before=check.before.tests if check.before else None,
            tests_after=check.tests,
            new_failures=check.new_failures,
            old_failures=check.old_failures,
            flaky=check.flaky,
            note=check.note,
        )
        for check in attempt.checks
    )
    return ComparedAttempt(
        place=place,
        attempt=attempt.id,
        agent=attempt.agent,
        model=attempt.model,
        status=attempt.status,
        evidence=attempt.evidence,
        winner=won,
        tries=tries,
        checks=checks,
        new_failures=sum(len(check.new_failures) for check in attempt.checks),
        files_changed=len(attempt.files_changed),
        insertions=attempt.insertions,
        deletions=attempt.deletions,
        outside=tuple(each.path for each in attempt.sandbox.violations if each.kind not in select.ALWAYS_FINE),
        cost=run_document.round_cost(attempt.cost),
        seconds=attempt.seconds,
        scores=attempt.scores,
        votes=attempt.votes,
        reason=reason,
    )
