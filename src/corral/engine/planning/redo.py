"""Open a run again: what was parked, nodes that failed, nodes from one on, or nodes of a flow file that was changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import structs

from corral.model import OPEN, NodeState, RunPlan
from corral.model.errors import BadRequest
from corral.model.flow import Flow
from corral.rules.schedule import redo
from corral.store.interface import Store

Say = Callable[[str], None]
PARKED = ("limited", "waiting", "over_budget")  #: on a quota, a question or a budget: a person wakes it up


def wake_up(store: Store, run: str) -> None:
    """Open a parked run again: the person says that its quota is back."""
    with store.transaction():
        for node in store.nodes(run):
            waited = node.status == "skipped" and (node.reason or "").endswith(("is over_budget", "is limited"))
            if node.status in PARKED or waited:
                store.move_node(run, NodeState(id=node.id, status="queued"))
        for parked in store.attempts(run):
            if parked.attempt.status in ("limited", "over_budget"):
                parked.until = 0.0
                if parked.attempt.status == "limited":
                    store.warm_up(parked.attempt.known_as)
                store.save_attempt(parked)
        store.move_run(run, "queued", None, None)


def redo_nodes(store: Store, run: str, node: str | None, say: Say) -> None:
    """Do a node once more with all that comes after it; without one, all that did not get done."""
    plan = store.run(run).plan
    if node is None:
        void = redo.unfinished_nodes(plan.flow, store.nodes(run))
        if not void and any(state.status in OPEN for state in store.nodes(run)):
            raise BadRequest(f"run {run} only waits for an answer", hint="corral inbox, then corral resume")
        if not void:
            raise BadRequest(f"every node of run {run} is done", hint=f"name one: corral retry {run} NODE")
    else:
        void = redo.behind(plan.flow, {_check_node(plan.flow, node): "you said so"})
    _open(store, run, plan, void, say)


def apply_changed_flow(store: Store, run: str, flow: Flow, say: Say) -> None:
    """Go on with another form of the flow; what it did not change stays done."""
    plan = store.run(run).plan
    void = redo.changed_nodes(plan.flow, flow)
    gone = {node.id for node in plan.flow.nodes} - {node.id for node in flow.nodes}
    for name in sorted(gone):
        say(f"`{name}` is not in the flow any more")
    with store.transaction():
        store.drop_nodes(run, gone)
        store.add_nodes(run, [node.id for node in flow.nodes])
        _open(store, run, structs.replace(plan, flow=flow), {**_not_done(store, run), **void}, say)


def after_revisions(store: Store, run: str, say: Say) -> bool:
    """Open the nodes that go on from work which was revised; return whether there are any."""
    revised = {record.attempt.id for record in store.attempts(run) if record.attempt.revises and not record.void}
    if not revised:
        return False
    plan, states = store.run(run).plan, store.nodes(run)
    if not (void := redo.behind_revisions(plan, states, revised)):
        return False
    won = tuple(state.winner for state in states if state.winner in revised and state.winner)
    _open(store, run, structs.replace(plan, revised=won), void, say)
    return True


def _not_done(store: Store, run: str) -> Mapping[str, str]:
    return {state.id: f"it is {state.status}" for state in store.nodes(run) if state.status in redo.NOT_DONE}


def _open(store: Store, run: str, plan: RunPlan, void: Mapping[str, str], say: Say) -> None:
    """Put nodes back to the beginning. Their attempts stay in the history and count no more."""
    known = {node.id for node in plan.flow.nodes}
    groups = tuple(f"{name}." for name in void)
    with store.transaction():
        store.drop_nodes(run, {s.id for s in store.nodes(run) if s.id not in known and s.id.startswith(groups)})
        for record in store.attempts(run):
            if record.node in void or record.node.startswith(groups):
                if record.attempt.status in OPEN and record.phase != "over":
                    continue  # it is taken up where it stands
                record.void = True
                store.save_attempt(record)
        for entry in store.inbox.of_run(run):
            again = entry.node is not None and (entry.node in void or entry.node.startswith(groups))
            if again and entry.is_open and entry.about == "choice":
                store.inbox.answer(entry.id, "", "corral", time.time())
                store.inbox.note_outcome(entry.id, f"`{entry.node}` is done again")
        for name, why in void.items():
            say(f"`{name}` is done again: {why}")
            store.move_node(run, NodeState(id=name))
        store.save_plan(run, redo.put_back(plan, void))
        store.move_run(run, "queued", None, None)


def _check_node(flow: Flow, node: str) -> str:
    names = [each.id for each in flow.nodes]
    if node not in names:
        raise BadRequest(f"the run has no node `{node}`", hint="it has: " + ", ".join(names[:30]))
    return node
