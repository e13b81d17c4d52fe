"""Orders of users for a run in any process: pause, resume, steer, condense."""

from __future__ import annotations

import asyncio
import time

from corral.engine.active_runs import ActiveRuns
from corral.engine.budget.money import Money
from corral.engine.context import Context, Driver
from corral.engine.views import run_status
from corral.model import OPEN, NodeState, Status
from corral.model.errors import BadRequest, CorralError
from corral.model.events import Noted
from corral.model.money import HaltReport, NotStopped
from corral.model.run import check_name
from corral.store.interface import Store

REST_SECONDS = 15.0  #: how long its agents may take to end, before that is reported instead
HALT_SECONDS = 30.0  #: how long a halt waits: a lease of 15 s, then the end of what it takes over
MOST_AT_ONCE = 16  #: runs that a halt ends itself
ANSWER_SECONDS = 5.0  #: how long the process that drives a run may take to say what became of an order


class Control:
    """Orders to runs; each answer says in words what became of one."""

    def __init__(self, context: Context, driver: Driver, active_runs: ActiveRuns, money: Money) -> None:
        self._context, self._driver, self._active_runs, self._money = context, driver, active_runs, money

    @property
    def _store(self) -> Store:
        return self._context.store

    def rename(self, name: str, title: str, by: str) -> str:
        """Give a run a name, or take it away with an empty one; return its id."""
        run, title = self._store.find(name), check_name(title) if title.strip() else ""
        with self._store.transaction():
            self._store.rename_run(run, title or None)
            words = f"named `{title}` by {by}" if title else f"its name was taken away by {by}"
            self._store.note(run, Noted(words), at=time.time())
        return run

    async def pause(self, name: str, node: str | None, by: str) -> str:
        """Let a run, or a node of it, rest; what is at work ends so that it can be continued."""
        run = self._store.find(name)
        if self._store.run(run).status not in OPEN:
            raise BadRequest(f"run {run} is over: {self._store.run(run).status}", hint="see `corral ls`")
        self._check_node(run, node)
        if self._active_runs.is_left(run) and (node is not None or self._fence_off(run)):
            with self._store.transaction():
                if node is None:
                    self._store.move_run(run, "paused", f"paused by {by}", None)
                else:
                    self._store.move_node(run, NodeState(id=node, status="paused", reason=f"paused by {by}"))
            return "paused; nobody was driving it"
        answer = await self._answer(run, self.order(run, "pause", by, node or ""))
        if answer and node is None and (status := await self._at_rest(run)) != "paused":
            return (
                "it is paused as soon as its agents have ended"
                if status in run_status.ACTIVE_STATUSES
                else f"too late: it is {status}"
            )
        return answer or "it is paused as soon as its process hears of it"

    async def unpause(self, name: str, node: str, by: str) -> str:
        """Let a paused node continue."""
        run = self._store.find(name)
        self._check_node(run, node)
        if self._active_runs.is_left(run):
            self._store.move_node(run, NodeState(id=node))
            return f"`{node}` continues with the run: corral resume {run}"
        answer = await self._answer(run, self.order(run, "unpause", by, node))
        return answer or "it continues as soon as its process reads the order"

    async def steer(self, name: str, text: str, by: str) -> str:
        """Tell the agents of a run something while they work; return what became of it, in words."""
        run = self._store.find(name)
        record = self._store.run(run)
        if not text.strip():
            raise BadRequest("there is nothing to tell", hint='say it: corral steer @last "also update the docs"')
        if record.status not in (*OPEN, "limited"):
            raise BadRequest(f"run {run} is over: {record.status}", hint="start a new one with `corral run`")
        order = self.order(run, "steer", by, text)
        if (answer := await self._answer(run, order)) is not None:
            return answer
        if self._active_runs.is_left(run) or record.status == "limited":
            return f"kept: the agent gets it when run {run} is resumed (corral resume {run})"
        return "kept: the agent gets it at the next turn"

    async def condense(self, name: str, by: str) -> str:
        """Have the agents of a run continue in fresh sessions from summaries; return what became of it, in words."""
        run = self._store.find(name)
        if self._store.run(run).status not in OPEN or self._active_runs.is_left(run):
            raise BadRequest(f"no agent of run {run} is at work", hint="only what is at work can be condensed")
        order = self.order(run, "condense", by)
        return await self._answer(run, order) or "kept: it is done as soon as an agent is at work"

    def order(self, run: str, verb: str, by: str, text: str = "") -> int:
        """Store a user's order for a run; another process that drives the run wakes up from it, this one acts on it."""
        order = self._store.order(run, verb, by, time.time(), text)
        self._active_runs.poke(run)
        return order

    async def halt(self, by: str) -> HaltReport:
        """Stop every run, let none start, and wait for a while; return what really stopped and what did not."""
        await self._active_runs.wait_until_unblocked(lambda _: None)
        runs = self._money.halt(by)
        idle = tuple(run for run in runs if self._idle(run))
        busy = [run for run in runs if run not in idle]
        few = asyncio.Semaphore(MOST_AT_ONCE)

        async def stop(run: str) -> None:
            async with few:
                await self._driver.stop(run, f"{by} (halt)")

        tasks = [asyncio.create_task(stop(run)) for run in busy]
        if tasks:
            await asyncio.wait(tasks, timeout=HALT_SECONDS)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        left: list[NotStopped] = []
        for run, came_of_it in zip(busy, ended, strict=True):
            if (record := self._store.run(run)).status in OPEN:
                own_error = isinstance(came_of_it, CorralError)
                why = str(came_of_it) if own_error else f"{run_status.owner_words(record.owner)} has not ended it yet"
                left.append(NotStopped(run, why, f"corral stop {run} --force"))
        open_runs = {each.run for each in left}
        return HaltReport(stopped=[run for run in busy if run not in open_runs], not_stopped=tuple(left), idle=idle)

    def _idle(self, run: str) -> bool:
        """Return whether nothing of a run can be at work: it waits or rests, and no process drives it."""
        record = self._store.run(run)
        lost = run_status.is_lost(record.status, record.owner, record.lease_until)
        return run_status.is_left(record, time.time()) and not lost

    def waits_for(self, run: str, order: int) -> str:
        """Say what a user waits for who has ordered a run to stop, and how to wait no longer."""
        record = self._store.run(run)
        owner = run_status.owner_words(record.owner)
        if self._store.order_answer(order) is not None:
            return f"waiting for {owner}: it ends the agents and saves their work"
        left = run_status.lease_left(record, time.time())
        return (
            f"waiting for {owner}: it has not taken the order yet; it loses the run in {left:.0f} s unless it answers,"
            " with --force at once"
        )

    def _check_node(self, run: str, node: str | None) -> None:
        names = [each.id for each in self._store.nodes(run)]
        if node is not None and node not in names:
            raise BadRequest(f"run {run} has no node `{node}`", hint=f"it has {', '.join(names[:20])}")

    def _fence_off(self, run: str) -> bool:
        """Take a run from an owner elsewhere that is silent, so that it changes nothing any more if it comes back."""
        if not self._active_runs.is_orphaned(run):
            if not self._active_runs.take_over(run):
                return False
            self._active_runs.disown(run)
        return True

    async def _at_rest(self, run: str) -> Status:
        """Wait until what is at work in a run that pauses has ended, if it does soon; return the state of it."""
        bell, until = self._store.watch(), time.monotonic() + REST_SECONDS
        try:
            while (status := self._store.status(run)) in run_status.ACTIVE_STATUSES and time.monotonic() < until:
                await bell.listen(0.2)
        finally:
            bell.close()
        return status

    async def _answer(self, run: str, order: int) -> str | None:
        """Wait for what the process that drives a run says to an order; None if it says nothing."""
        self._active_runs.poke(run)
        bell, until = self._store.watch(), time.monotonic() + ANSWER_SECONDS
        try:
            while time.monotonic() < until and not self._active_runs.is_left(run):
                answer = self._store.order_answer(order)
                if answer is not None:
                    return answer
                await bell.listen(0.2)
        finally:
            bell.close()
        return None
