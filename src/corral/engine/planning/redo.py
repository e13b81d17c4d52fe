"""Open a run again: what was parked, nodes that failed, nodes from one on, or nodes of a flow file that was changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from corral import amounts
from corral.attempt.repositories import load_trusted_settings
from corral.engine.planning import build_flow
from corral.model import OPEN, NodeState, Request, RunPlan
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node, PlanSpec
from corral.rules.flows import names, planned_flow
from corral.rules.schedule import redo
from corral.store.interface import Store

Say = Callable[[str], None]
PARKED = ("limited", "waiting", "over_budget")  #: on a quota, a question or a budget: a user wakes it up


def wake_up(store: Store, run: str) -> None:
    """Open a parked run again: the user says that its quota is back."""
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
    """Continue with another form of the flow; what it did not change stays done."""
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
    """Open the nodes that continue from work which was revised; return whether there are any."""
    revised = {record.attempt.id for record in store.attempts(run) if record.attempt.revises and not record.void}
    if not revised:
        return False
    plan, states = store.run(run).plan, store.nodes(run)
    if not (void := redo.behind_revisions(plan, states, revised)):
        return False
    won = tuple(state.winner for state in states if state.winner in revised and state.winner)
    _open(store, run, structs.replace(plan, revised=won), void, say)
    return True


def add_planned(store: Store, run: str, name: str) -> tuple[RunPlan, tuple[Node, ...], Node]:
    """Make the plan that was written for a node part of its run; return what was added, and the node behind it."""
    plan, winner = store.run(run).plan, next(each.winner for each in store.nodes(run) if each.id == f"{name}/plan")
    writer = next(node for node in plan.flow.nodes if node.id == f"{name}/plan")
    tries = [record.attempt for record in store.attempts(run) if record.node == writer.id]
    said = next((attempt.output for attempt in tries if attempt.id == winner), None)
    found = planned_flow.read_plan(said, writer.planning or PlanSpec(), name)
    if found.mistakes:
        raise BadRequest("; ".join(found.mistakes), hint=f"corral retry {run} {writer.id}")
    limit = writer.task.budget_usd
    left = None if limit is None else limit - sum(attempt.cost.usd or 0.0 for attempt in tries)
    if left is not None and left <= 0:
        raise BadRequest(
            f"planning has used up the budget of {amounts.usd(limit)}", hint="give the node a larger share"
        )
    settings = load_trusted_settings(Path(plan.repo), store.folder, trust=False)
    request, budget = Request(repo=plan.repo, machine=None), structs.replace(plan.flow, budget_usd=left)
    nodes = [
        build_flow.make_ready(_with_agent(node, writer), budget, request, settings, Path(plan.repo))
        for node in planned_flow.share_budget(found.nodes, limited=left is not None)
    ]
    order = " -> ".join(" | ".join(wave) for wave in found.waves)
    most = f", at most {amounts.usd(left)}" if left is not None else ""
    question = f"Run the plan of `{name}`? {amounts.count(len(nodes), 'node')}{most}: {order}"
    flow, added, joined = planned_flow.graft(plan.flow, name, nodes, question[: build_flow.MOST_QUESTION])
    with store.transaction():
        store.add_nodes(run, [node.id for node in added])
        store.save_plan(run, structs.replace(plan, flow=flow))
    return store.run(run).plan, added, joined


def _with_agent(node: Node, writer: Node) -> Node:
    """Let the agent that planned do what is planned for nobody, where it planned, and with its limits."""
    same = node.kind == "task" and node.agent in (AgentChoice(""), AgentChoice(writer.agent.name))
    task = structs.replace(
        node.task,
        timeout_seconds=node.task.timeout_seconds or writer.task.timeout_seconds,
        idle_seconds=node.task.idle_seconds or writer.task.idle_seconds,
        retries=writer.task.retries if node.task.retries is None else node.task.retries,
        briefing=tuple(words for words in writer.task.briefing if words.startswith(names.HEAD)),
        handed=writer.task.handed,
    )
    node = structs.replace(node, task=task, machine=writer.machine if node.kind != "gate" else None)
    return structs.replace(node, agent=writer.agent, fallback=writer.fallback) if same else node


def _not_done(store: Store, run: str) -> Mapping[str, str]:
    return {state.id: f"it is {state.status}" for state in store.nodes(run) if state.status in redo.NOT_DONE}


def _open(store: Store, run: str, plan: RunPlan, void: Mapping[str, str], say: Say) -> None:
    """Put nodes back to the beginning. Their attempts stay in the history and count no more."""
    before = {node.id for node in plan.flow.nodes}
    again = [node.id for node in plan.flow.nodes if node.planning and node.id in void]
    plan = structs.replace(plan, flow=planned_flow.without_plans(plan.flow, again))
    known = {node.id for node in plan.flow.nodes}
    void = {name: why for name, why in void.items() if name in known}
    groups = tuple(f"{name}." for name in void)
    with store.transaction():
        store.drop_nodes(run, before - known)
        store.drop_nodes(run, {s.id for s in store.nodes(run) if s.id not in known and s.id.startswith(groups)})
        for record in store.attempts(run):
            if record.node in void or record.node.startswith(groups):
                if record.attempt.status in OPEN and record.phase != "over":
                    continue  # it is taken up where it is
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
