"""The attempts of a run side by side: what each proved, what it changed, what it cost, and which place it took."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views import run_document
from corral.model import OPEN, Attempt, AttemptRecord, Cost, Evidence, NodeState, Tally
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

    place: int | None  #: null: a revision took its place, or it is a revision that was not accepted
    attempt: str
    revises: str | None  #: the attempt that it continues, after a review
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


class _Version(Struct, frozen=True, gc=False):
    """What a lane came to at first, or by one revision: the last of its tries."""

    attempt: Attempt
    tree: str
    tries: int


def _versions(lane: list[AttemptRecord]) -> list[_Version]:
    """Put the tries of a lane together up to each revision; the retries of a revision belong to it."""
    found: list[_Version] = []
    for record in lane:
        attempt = record.attempt
        again = found and not (attempt.revises and attempt.retry_of is None and attempt.fallback_of is None)
        tries = found.pop().tries if again else 0
        found.append(_Version(attempt, record.tree, tries + 1))
    return found


def _current(versions: list[_Version], winner: str | None) -> _Version:
    """Return the version that stands for its lane: the winner, else the last one that is done, else the last."""
    won = [each for each in versions if each.attempt.id == winner]
    return (won or [each for each in versions if each.attempt.status == "done"] or versions)[-1]


def _node(node: Node | None, state: NodeState, own: list[AttemptRecord]) -> ComparedNode:
    how: select.How = node.select if node else "evidence"
    places: dict[int, list[AttemptRecord]] = {}
    for record in own:
        places.setdefault(record.lane, []).append(record)
    lanes = [_versions(tries) for tries in places.values()]
    current = {found.attempt.id: (found, lane) for lane in lanes for found in [_current(lane, state.winner)]}
    candidates = [found.attempt for found, _ in current.values()]
    ranking = select.rank(candidates, how)
    trees = {name: found.tree for name, (found, _) in current.items()}
    equal = select.undecided_attempts(candidates, trees) if how == "evidence" and len(places) > 1 else ()
    dispute = variation.dispute([current[name][0].attempt for name in equal])
    undecided = f"{UNDECIDED}; {dispute}" if dispute else UNDECIDED
    reasons = {**ranking.reasons, **dict.fromkeys(equal, NOT_CHOSEN if state.winner else undecided)}
    if state.winner is not None and state.winner in equal:
        reasons[state.winner] = state.why or undecided
    rows: list[ComparedAttempt] = []
    for place, name in enumerate(ranking.order, 1):
        found, lane = current[name]
        rows.append(_row(place, found, reasons[name], won=state.winner == name))
        others = [each for each in reversed(lane) if each is not found]
        rows += [_row(None, each, _aside(each.attempt, lane, found), won=False) for each in others]
    return ComparedNode(
        node=state.id,
        status=state.status,
        select=how,
        winner=state.winner,
        why=(state.why if state.winner else None) or (undecided if equal else ranking.why),
        attempts=tuple(rows),
    )


def _aside(attempt: Attempt, lane: list[_Version], current: _Version) -> str:
    """Say why an attempt has no place: what revised it, or what became of the revision that it is."""
    later = [each for each in lane if each.attempt.revises == attempt.id]
    if revised := [each for each in later if each is current or each.attempt.status == "done"]:
        return f"revised by {_number(revised[-1].attempt.id)}"
    if attempt.revises is None:
        return "another was chosen"
    if attempt.status == "done":
        return f"revises {_number(attempt.revises)}; another was chosen"
    if attempt.status in OPEN:
        return f"revises {_number(attempt.revises)}; {attempt.status}"
    words = attempt.error.message if attempt.error else attempt.status
    return f"revises {_number(attempt.revises)}; not accepted: {words}"


def _number(attempt: str) -> str:
    return attempt.rpartition("-")[2]


def _row(place: int | None, version: _Version, reason: str, *, won: bool) -> ComparedAttempt:
    attempt = version.attempt
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
        revises=attempt.revises,
        agent=attempt.agent,
        model=attempt.model,
        status=attempt.status,
        evidence=attempt.evidence,
        winner=won,
        tries=version.tries,
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
