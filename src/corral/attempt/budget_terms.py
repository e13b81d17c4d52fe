"""The terms of a budget: settings of an attempt, limits above it, what a run spent, and how far to raise it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from corral.config import loader
from corral.model import OPEN, NodeState, RunPlan
from corral.model.errors import CorralError
from corral.model.flow import Node
from corral.model.money import Bound, Budget, Expected, Limit
from corral.rules.money import limits as budget
from corral.store.interface import Store
from corral.store.records import Child

RAISE_MARGIN = 1.25  #: attempts differ: of what they usually cost, a little more is offered


class Terms(Struct, frozen=True, kw_only=True):
    """On what terms an attempt works: what the user's settings, its agent and its run say."""

    budget: Budget
    fixed_usd: float | None = None
    local: bool = False  #: its models run here, or it asks none: it costs nothing
    tells: bool = True  #: it reports tokens or money; else its cost is estimated
    names_cost: bool = False  #: its settings say where it prints its cost: without it, that is unknown
    metered: bool = False  #: its provider is asked through us
    reports: bool = True  #: what it cost can be known at its end, by its own word
    notional: bool = False  #: its agent is logged in with a subscription: its dollars are no bill
    flow_usd: float | None = None  #: of the whole run
    go_on: bool = False  #: past limits of days and months, up to the ceiling: the user said so beforehand


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


def run_allowed_usd(store: Store, run: str) -> float:
    """Return by how much a person let a run go past its own budget."""
    kept = store.ledger
    return max(kept.allowed_overrun(Bound(limit=Limit(window=window, usd=0.0), run=run)) for window in ("node", "run"))


def run_held_usd(store: Store, run: str, node: str = "") -> tuple[float, float]:
    """Return what a run and its children have spent so far, or one node of it, and what is reserved for them."""
    return store.ledger.spent_and_reserved(
        Bound(limit=Limit(window="node" if node else "run", usd=0.0), run=run, node=node)
    )


def needed_usd(store: Store, run: str, *, besides: str = "") -> float:
    """Return what the tasks of a run that are not done are expected to cost; one of them can be left out.

    Those at work are not counted: what is reserved for them counts already.
    """
    plan = store.run(run).plan
    nodes = {node.id: node for node in plan.flow.nodes}
    settings, fixed = _raise_settings(plan)
    ledger, total = store.ledger, 0.0
    left_out = {besides, *(line.node for line in ledger.open_lines(run).values())}
    for state in store.nodes(run):
        node = nodes.get(state.id) or nodes.get(state.id.rpartition(".")[0])
        if node is None or node.kind != "task" or state.id in left_out or not _nodes_still_open(state, nodes):
            continue
        paid = ledger.paid_before(node.agent.name, node.agent.model, node.task.type)
        usd, expected = budget.to_reserve(fixed.get(node.agent.name), paid, settings)
        total += likely_raise_usd(usd, expected)
    return total


def likely_raise_usd(usd: float, expected: Expected) -> float:
    """Return what most likely is enough for one attempt."""
    return RAISE_MARGIN * usd if expected == "usual" else usd


def _nodes_still_open(state: NodeState, nodes: dict[str, Node]) -> bool:
    """Tell whether a node is still to be done; one that became several items is not counted besides them."""
    if state.id in nodes and nodes[state.id].fans_out:
        return False
    waits = state.status == "skipped" and "over_budget" in (state.reason or "")
    return waits or state.status in (*OPEN, "over_budget")


def _raise_settings(plan: RunPlan) -> tuple[Budget, dict[str, float | None]]:
    try:
        settings = loader.load(Path(plan.repo))
    except CorralError:  # they have become wrong since
        return Budget(), {}
    return settings.budget, {name: profile.cost_usd for name, profile in settings.agents.items()}
