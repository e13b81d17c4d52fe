"""Which nodes are done again, and why: a user asked for it, they changed, or what they continue from did."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

from msgspec import structs

from corral.model import NodeState, RunPlan
from corral.model.flow import Flow, Node
from corral.rules.schedule.progress import FAILED_ENDS

NOT_DONE = FAILED_ENDS | {"stopped", "limited", "queued", "running", "waiting", "paused"}


def behind(flow: Flow, names: Mapping[str, str]) -> dict[str, str]:
    """Return nodes and all that comes after them, each with why it is void."""
    after: dict[str, list[str]] = {}
    for node in flow.nodes:
        for edge in node.needs:
            after.setdefault(edge.node, []).append(node.id)
    void = dict(names)
    steps = list(names)
    for name in steps:  # grows
        for other in after.get(name, ()):
            if other not in void:
                void[other] = f"it comes after `{name}`"
                steps.append(other)
    return void


def unfinished_nodes(flow: Flow, states: Iterable[NodeState]) -> dict[str, str]:
    """Return the nodes that did not get done, and those that were skipped because of them."""
    known = {node.id: node.kind for node in flow.nodes}
    bad = {
        state.id: f"it is {state.status}"
        for state in states
        if state.status in NOT_DONE and state.id in known and not _asks(known[state.id], state.status)
    }
    return behind(flow, bad)


def _asks(kind: str, status: str) -> bool:
    """Tell whether a node is a gate that has asked: there is nothing to do again, its answer still counts."""
    return kind == "gate" and status == "waiting"


def changed_nodes(old: Flow, new: Flow) -> dict[str, str]:
    """Return the nodes of a flow whose results from an older form of it do not hold any more."""
    before: dict[str, Node] = {node.id: node for node in old.nodes}
    names = {
        node.id: "it is new" if node.id not in before else _difference(before[node.id], node)
        for node in new.nodes
        if before.get(node.id) != node
    }
    if old.inputs != new.inputs:
        named = _other_inputs(old, new)
        for node in new.nodes:
            if any(_names(node, name) for name in named):
                names.setdefault(node.id, "an input that it names has another value")
    return behind(new, names)


def _other_inputs(old: Flow, new: Flow) -> list[str]:
    """Return the inputs that have another value; of nested flows also those that are made of such."""
    found = [name for name in new.inputs if old.inputs.get(name) != new.inputs[name]]
    for name in found:  # grows
        folder, _, last = name.rpartition("/")
        for each, value in new.inputs.items():
            inside = "/" in each and each.rpartition("/")[0].rpartition("/")[0] == folder and each not in found
            if inside and "{{" in str(value) and re.search(rf"\b{re.escape(last)}\b", str(value)):
                found.append(each)
    return found


def _names(node: Node, name: str) -> bool:
    """Tell whether a text or an expression of a node names an input of its own flow."""
    folder, _, last = name.rpartition("/")
    if node.id.rpartition("/")[0] != folder and not any(each.rpartition("/")[0] == folder for each, _ in node.around):
        return False
    word = re.compile(rf"\b{re.escape(last)}\b")
    until = node.repeat.until if node.repeat else None
    expressions = [text for text in (node.when, node.for_each, until, *(words for _, words in node.around)) if text]
    texts = [text for text in (node.task.prompt, *node.task.checks) if "{{" in text]
    return any(word.search(text) for text in (*expressions, *texts))


def behind_revisions(plan: RunPlan, states: Iterable[NodeState], revised: Container[str]) -> dict[str, str]:
    """Return the nodes that continue from work which a revision has replaced since, each with why it is void.

    `revised` names the attempts that are revisions.
    """
    ended = [(state.id, state.winner) for state in states if state.winner]
    won = {node: name for node, name in ended if name in revised and name not in plan.revised}
    known = {node.id for node in plan.flow.nodes}
    names = {node if node in known else node.rpartition(".")[0]: f"{name} revises it" for node, name in won.items()}
    void = behind(plan.flow, names)
    return {name: why for name, why in void.items() if name not in names}


def epoch_of(plan: RunPlan, node: str) -> int:
    """Return when a gate, or the gate that an item is of, was last put back: what it asked before counts no more."""
    return plan.epochs.get(node, plan.epochs.get(node.partition(".")[0], plan.epoch))


def put_back(plan: RunPlan, void: Container[str]) -> RunPlan:
    """Return the plan of a run whose void nodes begin anew; gates that are not among them keep their answers."""
    epoch = plan.epoch + 1
    gates = [node.id for node in plan.flow.nodes if node.kind == "gate"]
    epochs = {name: epoch if name in void else epoch_of(plan, name) for name in gates}
    return structs.replace(plan, epoch=epoch, epochs=epochs)


def _difference(old: Node, new: Node) -> str:
    parts = [name for name in Node.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    inner = [name for name in type(new.task).__struct_fields__ if getattr(old.task, name) != getattr(new.task, name)]
    words = [*(part for part in parts if part != "task"), *inner]
    return "its " + ", ".join(words) + (" differs" if len(words) == 1 else " differ")
