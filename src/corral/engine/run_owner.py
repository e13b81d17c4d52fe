"""What the owner of a run does beside driving it: its lease, orders of others, and what an earlier owner left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from corral.attempt.proof.tree_runs import BESIDE, HOSTS
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptRun
from corral.machines import collect_work
from corral.machines.host import host_of
from corral.machines.workspace_host import beside_name
from corral.model import OPEN, AttemptRecord, Order, RunPlan
from corral.model.errors import TakenOver
from corral.model.events import Event, Noted
from corral.rules.schedule import agent_tries
from corral.store.interface import Store
from corral.store.records import LEASE_SECONDS
from corral.world import process_identity
from corral.world.workspace import checkout

FLUSH_SECONDS = 0.05  #: between two times that events are written: those of a moment go together
RENEW_SECONDS = 3.0
START_SECONDS = 5.0  #: that a message waits for an agent that is starting


class OwnedRun(Protocol):
    """A run that takes orders: the loop that drives it."""

    @property
    def run(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def attempts(self) -> Mapping[str, AttemptRun]: ...
    def stop(self, reason: str) -> None: ...
    def pause(self, node: str | None, by: str) -> None: ...
    def unpause(self, node: str) -> None: ...
    def look_up(self) -> None: ...
    def note(self, event: Event, node: str | None = None, attempt: str | None = None) -> None: ...


class Orders:
    """Orders for one run, taken by the process that drives it."""

    def __init__(self, run_loop: OwnedRun) -> None:
        self._loop = run_loop
        self._delayed: dict[int, float] = {}  #: messages that wait for an agent that is starting, and since when

    def take(self) -> None:
        """Carry out the orders; one that needs a running agent waits until there is one."""
        run_loop = self._loop
        for order in run_loop.store.orders(run_loop.run):
            if order.verb == "stop":
                run_loop.stop(f"stopped by {order.by}")
                run_loop.store.take_order(order.id, time.time())
            elif order.verb in ("pause", "unpause"):
                run_loop.store.take_order(order.id, time.time(), self._pause(order))
            elif order.verb == "condense" and run_loop.attempts:
                run_loop.store.take_order(order.id, time.time(), "; ".join(self._condense(order)))
            elif run_loop.attempts and not self._must_wait(order):
                run_loop.store.take_order(order.id, time.time(), "; ".join(self._steer(order)))

    def _must_wait(self, order: Order) -> bool:
        """Tell whether an agent is starting: its prompt may be written already, and its program cannot hear yet."""
        since = self._delayed.setdefault(order.id, time.monotonic())
        starting = any(each.is_starting for each in self._loop.attempts.values())
        if starting and time.monotonic() - since < START_SECONDS:
            return True
        del self._delayed[order.id]
        return False

    def _pause(self, order: Order) -> str:
        run_loop, node = self._loop, order.text or None
        if order.verb == "pause":
            run_loop.pause(node, order.by)
            return f"paused `{node}`" if node else "paused"
        if node:
            run_loop.unpause(node)
        return f"`{node}` continues"

    def _steer(self, order: Order) -> list[str]:
        """Tell every attempt at work a user's further message; return what became of it, in words."""
        words: list[str] = []
        for name, attempt_run in self._loop.attempts.items():
            agent = attempt_run.record.attempt.agent
            self._loop.note(Noted(f"{order.by} says: {order.text}"), attempt_run.record.node, name)
            if attempt_run.record.phase not in ("new", "working"):
                attempt_run.steer(order.text)
                words.append(f"{agent} ({name}) has ended: it gets the message only if there is another try")
            elif attempt_run.steer(order.text):
                words.append(f"sent to {agent} ({name}), which is at work")
            else:
                words.append(f"{agent} ({name}) takes no messages while it works: it gets this one at its next turn")
        return words

    def _condense(self, order: Order) -> list[str]:
        """Lead every attempt at work over into a fresh session; return what became of it, in words."""
        words: list[str] = []
        for name, attempt_run in self._loop.attempts.items():
            agent = attempt_run.record.attempt.agent
            if attempt_run.condense(order.by):
                words.append(f"{agent} ({name}) continues from a summary after its present step")
            else:
                words.append(f"{agent} ({name}) is not at work: there is nothing to condense")
        return words

    async def hear(self) -> None:
        """Learn of orders from other processes as soon as they are written."""
        bell, seen = self._loop.store.watch(), -1
        try:
            while True:
                if (now := self._loop.store.data_version()) != seen or self._delayed:
                    seen = now
                    self.take()
                    self._loop.look_up()
                await bell.listen(1.0)
        finally:
            bell.close()


async def keep_lease(run_loop: OwnedRun) -> None:
    """Renew the lease on a run; fail when another process has it."""
    reported = False
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        store, run = run_loop.store, run_loop.run
        if not reported and (trouble := store.removal_error()):
            reported = True
            run_loop.note(Noted(f"{trouble}; the run continues, {trouble.hint}"))
        if not store.renew_lease(run, run_loop.owner, time.time() + LEASE_SECONDS):
            raise TakenOver(f"another process has taken over run {run}", hint="see `corral ls`")


async def keep_flushing(store: Store) -> None:
    """Write what waits to be stored: an event after a silence at once, what follows it together with others."""
    noted = asyncio.Event()
    leave = store.when_noted(noted.set)
    try:
        store.flush()
        while True:
            await noted.wait()
            noted.clear()
            store.flush()
            await asyncio.sleep(FLUSH_SECONDS)
    finally:
        leave()


async def end_left(state: Path, plan: RunPlan, records: Sequence[AttemptRecord]) -> list[str]:
    """End the processes of attempts that this process has taken over; return the attempts that still had some."""
    records = [record for record in records if record.attempt.machine is None]  # others hold them by a lease
    left = [record for record in records if process_identity.has_processes(record.attempt.id)]
    await asyncio.gather(*(_keep(state, plan, record) for record in left if record.phase == "working"))
    for record in records:
        for name in (record.attempt.id, *(beside_name(record.attempt.id, each) for each in HOSTS)):
            process_identity.sweep(name)
    return [record.attempt.id for record in left]


async def _keep(state: Path, plan: RunPlan, record: AttemptRecord) -> None:
    """Keep a snapshot of a workspace in which an agent is still at work."""
    tree = Path(record.folder) / "work"
    if not tree.is_dir():
        return
    host = host_of(plan, plan.flow.nodes[0].task, repository_of(plan, state), state, record)
    await collect_work.before_end(host, checkout.read_workspace(tree))


async def remove_leavings(store: Store, run: str, records: Sequence[AttemptRecord]) -> None:
    """Remove workspaces of attempts that are over: a crash may have come between the end and the removal."""
    folder = store.folder / "workspaces"
    there = checkout.names(folder)  # asked once: thousands of attempts may be over
    if not there:
        return
    in_use = {record.folder for record in records if record.phase != "over" or record.kept}
    followed = {record.attempt.retry_of for record in records}
    parked = store.run(run).status in (*OPEN, "limited")
    for record in records:
        waits = record.attempt.status == "limited" or agent_tries.is_lost(record.attempt)
        if record.folder in in_use or (waits and parked and record.attempt.id not in followed):
            continue
        own = record.folder.rpartition("/")[2]
        beside = {f"{own}-cache", *(f"{record.attempt.id}-{name}" for name in BESIDE)}
        for name in {own, *beside} & there:
            await checkout.remove(folder / name)
