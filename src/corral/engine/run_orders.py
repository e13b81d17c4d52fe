"""Orders to a run from other processes, and processes that its earlier owner left on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from corral.attempt.proof.tree_runs import HOSTS as BESIDE
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptRun
from corral.machines import collect_work
from corral.machines.host import host_of
from corral.machines.workspace_host import beside_name
from corral.model import AttemptRecord, Order, RunPlan
from corral.model.events import Event, Noted
from corral.store.interface import Store
from corral.world import process_identity
from corral.world.workspace import checkout


class OrderedRun(Protocol):
    """A run that takes orders: the loop that drives it."""

    @property
    def run(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def attempts(self) -> Mapping[str, AttemptRun]: ...
    def stop(self, reason: str) -> None: ...
    def pause(self, node: str | None, by: str) -> None: ...
    def unpause(self, node: str) -> None: ...
    def look_up(self) -> None: ...
    def note(self, event: Event, node: str | None, attempt: str | None = None) -> None: ...


class Orders:
    """Orders for one run, taken by the process that drives it."""

    def __init__(self, run_loop: OrderedRun) -> None:
        self._loop = run_loop

    def take(self) -> None:
        """Carry out what was ordered; what needs an agent to be told waits until there is one."""
        run_loop = self._loop
        for order in run_loop.store.orders(run_loop.run):
            if order.verb == "stop":
                run_loop.stop(f"stopped by {order.by}")
                run_loop.store.take_order(order.id, time.time())
            elif order.verb in ("pause", "unpause"):
                run_loop.store.take_order(order.id, time.time(), self._pause(order))
            elif order.verb == "condense" and run_loop.attempts:
                run_loop.store.take_order(order.id, time.time(), "; ".join(self._condense(order)))
            elif run_loop.attempts:
                run_loop.store.take_order(order.id, time.time(), "; ".join(self._steer(order)))

    def _pause(self, order: Order) -> str:
        run_loop, node = self._loop, order.text or None
        if order.verb == "pause":
            run_loop.pause(node, order.by)
            return f"paused `{node}`" if node else "paused"
        if node:
            run_loop.unpause(node)
        return f"`{node}` goes on"

    def _steer(self, order: Order) -> list[str]:
        """Tell every attempt at work what a person wants besides; return what became of it, in words."""
        words: list[str] = []
        for name, attempt_run in self._loop.attempts.items():
            agent = attempt_run.record.attempt.agent
            self._loop.note(Noted(f"{order.by} says: {order.text}"), attempt_run.record.node, name)
            if attempt_run.record.phase not in ("new", "working"):
                attempt_run.steer(order.text)
                words.append(f"{agent} ({name}) has ended: it is told only if there is another try")
            elif attempt_run.steer(order.text):
                words.append(f"told {agent} ({name}), which is at work")
            else:
                words.append(f"{agent} ({name}) does not listen while it works: it is told at its next turn")
        return words

    def _condense(self, order: Order) -> list[str]:
        """Lead every attempt at work over into a fresh session; return what became of it, in words."""
        words: list[str] = []
        for name, attempt_run in self._loop.attempts.items():
            agent = attempt_run.record.attempt.agent
            if attempt_run.condense(order.by):
                words.append(f"{agent} ({name}) goes on from a summary once its present step is over")
            else:
                words.append(f"{agent} ({name}) is not at work: there is nothing to condense")
        return words

    async def hear(self) -> None:
        """Learn of orders from other processes as soon as they are written."""
        bell, seen = self._loop.store.watch(), -1
        try:
            while True:
                if (now := self._loop.store.data_version()) != seen:
                    seen = now
                    self.take()
                    self._loop.look_up()
                await bell.listen(1.0)
        finally:
            bell.close()


async def end_left(state: Path, plan: RunPlan, records: Sequence[AttemptRecord]) -> list[str]:
    """End the processes of attempts that this process has taken over; return the attempts that still had some."""
    records = [record for record in records if record.attempt.machine is None]  # others hold them by a lease
    left = [record for record in records if process_identity.has_processes(record.attempt.id)]
    await asyncio.gather(*(_keep(state, plan, record) for record in left if record.phase == "working"))
    for record in records:
        for name in (record.attempt.id, *(beside_name(record.attempt.id, each) for each in BESIDE)):
            process_identity.sweep(name)
    return [record.attempt.id for record in left]


async def _keep(state: Path, plan: RunPlan, record: AttemptRecord) -> None:
    """Keep a snapshot of a workspace in which an agent is still at work."""
    tree = Path(record.folder) / "work"
    if not tree.is_dir():
        return
    host = host_of(plan, plan.flow.nodes[0].task, repository_of(plan, state), state, record)
    await collect_work.before_end(host, checkout.read_workspace(tree))
