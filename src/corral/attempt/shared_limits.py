"""The limits that a spawned run shares with the tasks and runs above it."""

from __future__ import annotations

from corral.model.money import Bound, Limit
from corral.rules.money import limits as budget
from corral.store.interface import Store
from corral.store.records import Child


def bounds_above(store: Store, run: str) -> list[Bound]:
    """Return the limits of every task and flow above a run; none for a run that a user started."""
    above = _above(store, run)
    waiting = tuple(child.attempt for child in above if not _has_fixed_price(store, child))
    found: list[Bound] = []
    for child in above:
        plan = store.run(child.parent).plan
        nodes = {node.id: node for node in plan.flow.nodes}
        node = nodes.get(child.node) or nodes.get(child.node.rpartition(".")[0])
        own_usd, flow_usd = node.task.budget_usd if node else None, budget.of_run(plan.flow)
        limits = [
            *([Limit(window="node", usd=own_usd, where="the task that started it")] if own_usd is not None else []),
            *([Limit(window="run", usd=flow_usd, where="the run that started it")] if flow_usd is not None else []),
        ]
        found += [
            Bound(limit=limit, run=child.parent, node=child.node, spender=run, waiting=waiting) for limit in limits
        ]
    return found


def _above(store: Store, run: str) -> list[Child]:
    """Return how a run came to be, and how the run above it did, up to the one that a user started."""
    lineage, found = store.lineage, list[Child]()
    while (child := lineage.of(run)) is not None:
        found.append(child)
        run = child.parent
    return found


def _has_fixed_price(store: Store, child: Child) -> bool:
    """Return whether the attempt above a run is sure to be charged what is reserved for it."""
    records = [each for each in store.attempts(child.parent) if each.attempt.id == child.attempt]
    return any(record.cost_usd is not None for record in records)
