"""The run document, built from what is stored; building it writes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET, structs

from corral.attempt import artifacts
from corral.engine.views import run_status
from corral.model import (
    OPEN,
    Attempt,
    AttemptRecord,
    Cost,
    MergeState,
    NodeClash,
    NodeState,
    Run,
    RunRecord,
    Tokens,
    moment,
    winner,
)  # fmt: skip
from corral.model.errors import BadRequest
from corral.model.flow import Node
from corral.model.merge import MergeRecord
from corral.model.money import PaidAttempt, dollars
from corral.model.values import SOURCES
from corral.rules.money import limits
from corral.rules.schedule import reduce
from corral.store.interface import Store
from corral.store.records import latest_merge, merged_last, merges_in_conflict
from corral.world import clock


def build(store: Store, run: str) -> Run:
    record = store.run(run)
    records = store.attempts(run)
    needs = {node.id: node.needs for node in record.plan.flow.nodes}
    nodes = store.nodes(run)
    counted = store.ledger.open_lines(run) if record.status in OPEN else dict[str, PaidAttempt]()
    for node in nodes:
        node.needs = tuple(edge.node for edge in needs.get(node.id, ()))
        node.attempts = [each.attempt for each in records if each.node == node.id]
        for attempt in node.attempts:
            if attempt.status in OPEN and (line := counted.get(attempt.id)):
                _count(attempt, line)
            attempt.cost = round_cost(attempt.cost)
            if attempt.workspace and not Path(attempt.workspace).exists():
                attempt.workspace = UNSET  # cleaned away
        node.evidence = next((each.evidence for each in node.attempts if each.id == node.winner), None)
    status, reason = run_status.run_status(store, record, nodes, records)
    _refresh_hints(store, run, nodes)
    _reduce(nodes, {node.id: node for node in record.plan.flow.nodes if node.reduce}, records)
    lineage = store.lineage
    born, children = lineage.of(run), [child.run for child in lineage.below_run(run)]
    below = [each for name in lineage.all_below(run) for each in store.attempts(name)] if children else []
    attempts = [each.attempt for each in (*records, *below)]
    return Run(
        run=run,
        name=record.plan.name,
        labels=record.plan.labels,
        status=status,
        reason=reason,
        strategy=record.plan.flow.strategy,
        composition=record.plan.composition,
        task=record.plan.flow.title,
        repo=record.plan.repo,
        base=record.plan.base,
        started=moment(record.created),
        seconds=clock.seconds_since(record.clock, record.created) if record.seconds is None else record.seconds,
        cost=total_cost(attempts),
        tokens=sum((attempt.tokens for attempt in attempts), Tokens()),
        nodes=nodes,
        merge=_merge(nodes, record.plan.into, _merges(store, record)),
        artifacts=tuple(artifacts.of_nodes(nodes, records)),
        comments=tuple(store.review.of_run(run)),
        pull_request=store.merges.pull_request(run),
        parent=born.parent if born else None,
        children=tuple(children),
        split=_cost_split(attempts) if children else UNSET,
    )


def _cost_split(attempts: Iterable[Attempt]) -> dict[str, float]:
    """Return what each agent with its model has cost, as far as it is known: a lead and its helpers side by side."""
    found: dict[str, float] = {}
    for each in attempts:
        name = f"{each.agent}:{each.model}" if each.model else each.agent
        found[name] = round(found.get(name, 0.0) + (each.cost.usd or 0.0), 6)
    return found


def pick_attempt(run: Run, named: str | None) -> Attempt:
    """Return the attempt that is meant by its id or number; without one the winner, or else the last with work."""
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    if not attempts:
        raise BadRequest(f"run {run.run} has no attempt yet", hint=f"corral logs {run.run} -f shows when one starts")
    if named is None:
        won = winner(run.nodes)
        with_work = [attempt for attempt in attempts if attempt.commit]
        return won or (with_work or attempts)[-1]
    for attempt in attempts:
        if named in (attempt.id, attempt.id.rpartition("-")[2]):
            return attempt
    raise BadRequest(f"run {run.run} has no attempt `{named}`", hint="it has: " + ", ".join(a.id for a in attempts))


def _count(attempt: Attempt, line: PaidAttempt) -> None:
    """Put in what is counted so far of an attempt at work."""
    so_far = Tokens(line.input, line.output, line.cache_read, line.cache_write)
    attempt.tokens = max(so_far, attempt.tokens, key=lambda tokens: tokens.total)
    usd = max(line.spent, attempt.cost.usd or 0.0) if line.spent or attempt.cost.usd is not None else None
    source = attempt.cost.source if line.source == "unknown" else line.source
    notional = True if line.notional else UNSET
    attempt.cost = Cost(usd, source, max(0.0, line.reserved - line.spent), notional=notional)


def _refresh_hints(store: Store, run: str, nodes: Sequence[NodeState]) -> None:
    """Say how to answer what is asked about money as it is offered now, and nothing where it was answered since."""
    asked = [
        each
        for node in nodes
        for each in node.attempts
        if each.error and each.error.kind == "budget" and each.error.hint != limits.UNPRICED_HINT
    ]
    if not asked:
        return
    hints = [limits.hint(entry) for entry in store.inbox.of_run(run) if entry.is_open and entry.about == "budget"]
    for attempt in asked:
        if attempt.error and attempt.error.hint not in hints:
            same = [hint for hint in hints if hint.split()[:3] == attempt.error.hint.split()[:3]]
            attempt.error = structs.replace(attempt.error, hint=next(iter(same), ""))


def _reduce(states: Sequence[NodeState], reducing: Mapping[str, Node], records: Sequence[AttemptRecord]) -> None:
    """Put in the one output of nodes that have several."""
    for state in states:
        node = reducing.get(state.id)
        if node is None or state.status in OPEN:
            continue
        items = [each for each in states if each.id.rpartition(".")[0] == state.id]
        if items:
            won = [next((each for each in item.attempts if each.id == item.winner), None) for item in items]
            parts = reduce.parts_of([each for each in won if each])
        else:
            own = [each for each in records if each.node == state.id and each.lane >= 0 and not each.void]
            last = {each.lane: each.attempt for each in own}
            parts = reduce.parts_of([last[place] for place in sorted(last)])
        agents = [each.name for each in (node.agent, *node.rivals)]
        state.output = reduce.reduce(parts, node.reduce or "list", agents).output


def total_cost(attempts: Iterable[Attempt]) -> Cost:
    costs = [attempt.cost for attempt in attempts]
    known = [cost.usd for cost in costs if cost.usd is not None]
    if not costs:
        return Cost()
    paid = [cost for cost in costs if cost.usd] or [cost for cost in costs if cost.usd is not None]
    worst = max((SOURCES.index(cost.source) for cost in paid), default=len(SOURCES) - 1)
    disputed = True if any(cost.disputed is True for cost in costs) else UNSET
    reserved = sum(cost.reserved_usd for cost in costs)
    notional = True if any(cost.notional is True for cost in costs) else UNSET
    return round_cost(Cost(sum(known) if known else None, SOURCES[worst], reserved, disputed, notional))


def round_cost(cost: Cost) -> Cost:
    """Return a cost as every document shows it."""
    usd = None if cost.usd is None else dollars(cost.usd)
    return structs.replace(cost, usd=usd, reserved_usd=dollars(cost.reserved_usd))


def _merges(store: Store, record: RunRecord) -> list[MergeRecord]:
    """Return the merges of a run without those that were given up; a run that is not over ends its own itself."""
    found, now = store.merges.of_run(record.id), time.time()
    return found if record.status in OPEN else [each for each in found if not run_status.given_up(store, each, now)]


def _merge(nodes: Sequence[NodeState], into: str | None, records: Sequence[MergeRecord]) -> MergeState:
    clashes = [_clash(record) for record in reversed(merges_in_conflict(records))]
    if last := merged_last(records):
        others = tuple(clashes) or UNSET
        taken = tuple(each.words for each in last.take) or UNSET
        return MergeState(
            status="merged",
            into=last.into,
            commit=last.after if last.strategy != "apply" else None,
            why="in the checkout, not committed" if last.strategy == "apply" else UNSET,
            attempts=last.attempts or UNSET,
            taken=taken,
            others=others,
        )
    if clashes:
        return structs.replace(clashes[0], others=tuple(clashes[1:]) or UNSET)
    if last := latest_merge(records):
        return MergeState(status="undone", into=last.into)
    won = winner(nodes)
    ready = won is not None and won.commit is not None and bool(won.files_changed)
    return MergeState(status="ready" if ready else "none", into=into)


def _clash(record: MergeRecord) -> MergeState:
    paths = tuple(conflict.path for conflict in record.conflicts)
    clashes = (NodeClash(one=record.between[0], other=record.between[1], files=paths),) if record.between else UNSET
    return MergeState(status="conflict", into=record.into, conflicts=paths, clashes=clashes)
