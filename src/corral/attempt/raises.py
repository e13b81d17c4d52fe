"""How much more a run needs that a limit stopped: enough to finish, by what its attempts cost here."""

from __future__ import annotations

from pathlib import Path

from corral.config import loader
from corral.model import OPEN, NodeState, RunPlan
from corral.model.errors import CorralError
from corral.model.flow import Node
from corral.model.money import Budget, Expected
from corral.rules.money import limits
from corral.store.interface import Store

MARGIN = 1.25  #: attempts differ: of what they usually cost, a little more is offered


def needed_usd(store: Store, run: str, *, besides: str = "") -> float:
    """Return what the tasks of a run that are not done are expected to cost; one of them can be left out.

    Those at work are not counted: what is reserved for them counts already.
    """
    plan = store.run(run).plan
    nodes = {node.id: node for node in plan.flow.nodes}
    settings, fixed = _settings(plan)
    ledger, total = store.ledger, 0.0
    left_out = {besides, *(line.node for line in ledger.open_lines(run).values())}
    for state in store.nodes(run):
        node = nodes.get(state.id) or nodes.get(state.id.rpartition(".")[0])
        if node is None or node.kind != "task" or state.id in left_out or not _still_open(state, nodes):
            continue
        paid = ledger.paid_before(node.agent.name, node.agent.model, node.task.type)
        usd, expected = limits.to_reserve(fixed.get(node.agent.name), paid, settings)
        total += likely(usd, expected)
    return total


def likely(usd: float, expected: Expected) -> float:
    """Return what most likely is enough for one attempt."""
    return MARGIN * usd if expected == "usual" else usd


def _still_open(state: NodeState, nodes: dict[str, Node]) -> bool:
    """Tell whether a node is still to be done; one that became several items is not counted besides them."""
    if state.id in nodes and nodes[state.id].fans_out:
        return False
    waits = state.status == "skipped" and "over_budget" in (state.reason or "")
    return waits or state.status in (*OPEN, "over_budget")


def _settings(plan: RunPlan) -> tuple[Budget, dict[str, float | None]]:
    try:
        settings = loader.load(Path(plan.repo))
    except CorralError:  # they have become wrong since
        return Budget(), {}
    return settings.budget, {name: profile.cost_usd for name, profile in settings.agents.items()}
