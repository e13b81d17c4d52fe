"""Runs that an attempt spawns: each a run of its own, paid from the attempt's budget, and over when it is over."""

from __future__ import annotations

import os
import time
from pathlib import Path, PurePath
from typing import Any

from msgspec import structs

from corral.attempt import briefing
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.budget_figures import run_held_usd
from corral.attempt.events import AttemptEvents
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.results import text_of
from corral.model import OPEN, RunPlan, RunRecord, SlotLimits, winner
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest
from corral.model.events import Noted
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.rules.context.tools import SpawnTask
from corral.rules.money import limits
from corral.rules.money.limits import SpawnStatus
from corral.rules.text import names
from corral.store.records import LEASE_SECONDS, Child
from corral.world import clock

MOST_OUTPUT = 20_000  #: characters of a child's output that its result contains
MOST_TITLE = 100
SPAWNED = (
    "Before you were cut off you spawned these tasks. They continue: do not spawn them again, "
    "ask for them with child_result."
)

ENDED = "These that you spawned have ended without a result; spawn what you still need anew."


class Children:
    """The children of one attempt."""

    def __init__(
        self, toolbox_context: RunContext, attempt_events: AttemptEvents, node: Node, where: AttemptMachine
    ) -> None:
        self._context, self._events, self._node = toolbox_context, attempt_events, node
        self._machine, self._host = where.machine, where.host
        self._run, self._attempt = attempt_events.record.run, attempt_events.attempt.id

    def spawn(self, asked: SpawnTask) -> str:
        """Open a run below this one and drive it; return its name."""
        rules, giver = self._host.plan.toolbox, self._node.task.role or ""
        limits.spawn_pair(rules, giver, asked.role)
        choice = self._choice(asked.agent)
        plan = self._plan(asked, choice)
        now = time.time()
        run = names.run_id(int(now * 1000), int.from_bytes(os.urandom(4)))
        with self._context.store.transaction():
            child = self._child(run, asked.budget_usd, now)
            task = structs.replace(plan.flow.nodes[0].task, budget_usd=child.budget_usd)
            plan = structs.replace(plan, flow=_flow(task, choice))
            record = RunRecord(
                id=run,
                status="queued",
                reason=None,
                plan=plan,
                created=now,
                clock=clock.reading(),
                owner=self._context.child_runs.owner,
                lease_until=now + LEASE_SECONDS,
            )
            self._context.store.add_run(record)
            self._context.lineage.add(child)
            self._context.store.ledger.adopt(run, self._run)
        why = f" ({asked.reason})" if asked.reason else ""
        role = f" as {asked.role}" if asked.role else ""
        self._events.emit(Noted(f"spawned run {run}: {choice}{role}{why}"))
        self._context.child_runs.start(run, self._context.listen)
        return run

    async def result(self, name: str, wait_seconds: float) -> dict[str, Any]:
        """Tell how a child is, and what came of it."""
        child = self._own(name)
        await self._context.child_runs.wait(child.run, wait_seconds)
        run = self._context.child_runs.document(child.run)
        described: dict[str, Any] = {"child": run.run, "status": run.status, "over": run.status not in OPEN}
        if run.status in OPEN:
            return described
        attempts = [attempt for node in run.nodes for attempt in node.attempts]
        won = winner(run.nodes) or (attempts[-1] if attempts else None)
        described |= {"reason": run.reason, "cost_usd": run.cost.usd}
        if won:
            output = text_of(won.output)
            if won.commit:  # so that it can be merged or looked at there
                await self._machine.lend(PurePath(self._events.record.folder).name, won.commit)
            described |= {"output": output[:MOST_OUTPUT], "commit": won.commit, "files": won.files_changed}
            described |= {"error": won.error.message} if won.error else {}
        return described

    async def stop(self, name: str) -> None:
        await self._context.child_runs.stop(self._own(name).run)

    async def stop_all(self) -> None:
        """End what is not over yet: nobody waits for it any more."""
        for child in self._open():
            self._events.emit(Noted(f"run {child.run} is stopped: the attempt that spawned it has ended"))
            await self._context.child_runs.stop(child.run)

    async def pause_all(self) -> None:
        """Leave what is not over: the attempt that continues this one continues it."""
        for child in self._open():
            await self._context.child_runs.pause(child.run)

    def go_on(self) -> None:
        """Continue children of the attempt that this one continues."""
        for child in self._open():
            self._events.emit(Noted(f"run {child.run}, which an earlier try spawned, continues"))
            self._context.child_runs.go_on(child.run, self._context.listen)

    def words(self) -> str:
        """Return what the next agent must know when another was cut off."""
        current: list[str] = []
        lost: list[str] = []
        for child in self._context.lineage.below_attempt(self._attempt):
            run = self._context.store.run(child.run)
            words = f"- {child.run} ({run.status}): {' '.join(run.plan.flow.title.split())[:MOST_TITLE]}"
            (current if run.status in (*OPEN, "done", "partial") else lost).append(words)
        parts = [[SPAWNED, *current] if current else [], [ENDED, *lost] if lost else []]
        return "\n".join(line for part in parts for line in part)

    def abandon(self) -> None:
        for child in self._context.lineage.below_attempt(self._attempt):
            self._context.child_runs.abandon(child.run)

    def held_usd(self) -> float:
        """Return what counts for all below this node: what was spent and reserved, or promised to those at work."""
        lineage, held = self._context.lineage, 0.0
        for child in lineage.below_node(self._run, self._node.id):
            at_work = self._context.store.run(child.run).status in OPEN
            held += max(
                sum(run_held_usd(self._context.store, child.run)), (child.budget_usd or 0.0) if at_work else 0.0
            )
        return held

    # --- parts of a child

    def _open(self) -> list[Child]:
        found = self._context.lineage.below_attempt(self._attempt)
        return [child for child in found if self._context.store.run(child.run).status in OPEN]

    def _own(self, name: str) -> Child:
        for child in self._context.lineage.below_attempt(self._attempt):
            if child.run == name:
                return child
        raise BadRequest(f"you have no child `{name[:80]}`", hint="spawn_task returns its name")

    def _child(self, run: str, asked_usd: float, now: float) -> Child:
        lineage = self._context.lineage
        mine = lineage.of(self._run)
        root, depth = (mine.root, mine.depth) if mine else (self._run, 0)
        limit_status = SpawnStatus(depth=depth, family=lineage.count(root), left_usd=self._left_usd())
        return Child(
            run=run,
            root=root,
            parent=self._run,
            node=self._node.id,
            attempt=self._attempt,
            depth=depth + 1,
            budget_usd=limits.spawn_budget(self._host.plan.toolbox, limit_status, asked_usd),
            at=now,
        )

    def _left_usd(self) -> float | None:
        """Return what neither this attempt nor a child has spent or been promised."""
        left = self._events.budget.left_usd()
        return None if left is None else left - self._events.budget.spent_usd

    def _choice(self, asked: str) -> AgentChoice:
        flow, rules = self._host.plan.flow, self._host.plan.toolbox
        mine = AgentChoice(self._events.attempt.agent, self._events.attempt.model, self._events.attempt.account)
        if not asked:
            return mine
        known = {str(each) for node in flow.nodes for each in (node.agent, *node.rivals) if each.name} | {str(mine)}
        choice = AgentChoice.read(asked)
        name = str(AgentChoice(choice.name, None, choice.account))
        if asked not in known and name not in rules.agents and asked not in rules.agents:
            raise BadRequest(
                f"a child may not be `{asked}`", hint="it may be: " + ", ".join(sorted({*known, *rules.agents}))
            )
        return choice

    def _plan(self, asked: SpawnTask, choice: AgentChoice) -> RunPlan:
        plan, mine = self._host.plan, self._node.task
        if not asked.task.strip() or "\0" in asked.task:
            raise BadRequest("the task is empty, or no plain text", hint="say in `task` what to do")
        role, read_only = asked.role or None, asked.read_only or mine.read_only
        task = Task(
            prompt=asked.task,
            role=role,
            briefing=(briefing.role(role, Path(plan.repo), theirs_first=False),) if role else (),
            read_only=read_only,
            unchanged_ok=not read_only,
            timeout_seconds=mine.timeout_seconds,
            idle_seconds=mine.idle_seconds,
        )
        trial = AgentTask(prompt=asked.task, workspace=plan.repo, home="/", model=choice.model)
        resolved = self._context.connect_agent(choice.name, choice.account)
        resolved.resolve(resolved.agent.start(trial))  # what cannot start is refused now
        # It counts, but waits for no slot: who spawned it holds one, and waits for it.
        return structs.replace(plan, flow=_flow(task, choice), base=self._host.base, merge="never", limits=SlotLimits())


def _flow(task: Task, choice: AgentChoice) -> Flow:
    return Flow(name="child", strategy="single", nodes=(Node(id="main", task=task, agent=choice),))
