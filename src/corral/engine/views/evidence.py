"""How the results of a run were checked: what `corral evidence`, the page, MCP and the HTTP API show."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views import run_document
from corral.model import (
    AlteredTests,
    Attempt,
    AttemptRecord,
    Doubt,
    EvidenceDetail,
    EvidenceRun,
    Grade,
    NodeState,
    Run,
    SteeringFile,
    TestChange,
)
from corral.model.errors import BadRequest
from corral.rules.merge import merge
from corral.rules.race import variation
from corral.store.interface import Store


class GradedAttempt(Struct, frozen=True, kw_only=True):
    """One attempt of the run and its grade, in short."""

    attempt: str
    node: str
    agent: str
    model: str | None
    status: str
    winner: bool
    grade: Grade | None  #: null: it is not over, or its checks fail
    reasons: tuple[str, ...]


class EvidenceView(Struct, frozen=True, kw_only=True):
    """How one attempt was checked, and the grades of all others of its run."""

    run: str
    node: str
    attempt: str
    agent: str
    model: str | None
    status: str
    winner: bool
    error: str | None
    grade: Grade | None  #: null: it is not over, or its checks fail
    reasons: tuple[str, ...]
    trees: dict[str, str]  #: delivered, base, harness ... -> tree hash
    runs: tuple[EvidenceRun, ...]
    tests: tuple[TestChange, ...]
    altered: tuple[AlteredTests, ...]
    steered: tuple[SteeringFile, ...]
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...]
    attempts: tuple[GradedAttempt, ...]


def view(store: Store, run: str, attempt: str | None) -> EvidenceView:
    """Return how an attempt was checked: the one that is named, else the winner, else the last that has work."""
    found = run_document.build(store, run)
    records = {each.attempt.id: each for each in store.attempts(run)}
    pairs = [(node, each) for node in found.nodes for each in node.attempts if records[each.id].lane >= 0]
    node, chosen = _choose_attempt(found, pairs, attempt)
    return _view(found, (node, chosen), records[chosen.id], tuple(_graded_attempt(*pair) for pair in pairs))


def _choose_attempt(run: Run, pairs: list[tuple[NodeState, Attempt]], named: str | None) -> tuple[NodeState, Attempt]:
    if not pairs:
        raise BadRequest(f"run {run.run} has no attempt yet", hint=f"watch it: corral logs -f {run.run}")
    if named is not None:
        name = merge.attempt_named(run, named, [each.id for _, each in pairs])
        found = [pair for pair in pairs if pair[1].id == name]
        if not found:
            names = ", ".join(f"{each.id} ({each.agent})" for _, each in pairs)
            raise BadRequest(f"run {run.run} has no attempt `{named}`", hint=f"it has: {names}")
        return found[0]
    won = [(node, each) for node, each in pairs if each.id == node.winner]
    graded = [pair for pair in won if pair[1].evidence]
    with_work = [pair for pair in pairs if pair[1].commit]
    return (graded or won or with_work or pairs)[-1]


def _view(
    run: Run, pair: tuple[NodeState, Attempt], record: AttemptRecord, others: tuple[GradedAttempt, ...]
) -> EvidenceView:
    node, attempt = pair
    detail = record.evidence or EvidenceDetail()
    short = _graded_attempt(node, attempt)
    return EvidenceView(
        run=run.run,
        node=short.node,
        attempt=short.attempt,
        agent=short.agent,
        model=short.model,
        status=short.status,
        winner=short.winner,
        error=f"{attempt.error.kind}: {attempt.error.message}" if attempt.error else None,
        grade=short.grade,
        reasons=short.reasons,
        trees={**detail.trees},
        runs=detail.runs,
        tests=detail.tests,
        altered=detail.altered,
        steered=detail.steered,
        doubts=detail.doubts,
        notes=(*detail.notes, *([words] if (words := variation.note(attempt)) else ())),
        attempts=others,
    )


def _graded_attempt(node: NodeState, attempt: Attempt) -> GradedAttempt:
    return GradedAttempt(
        attempt=attempt.id,
        node=node.id,
        agent=attempt.agent,
        model=attempt.model,
        status=attempt.status,
        winner=attempt.id == node.winner,
        grade=attempt.evidence.grade if attempt.evidence else None,
        reasons=attempt.evidence.reasons if attempt.evidence else (),
    )
