"""Drive one run: look at what is stored, decide, act, wait for something to happen, look again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from corral.engine.attempt import AttemptCourse, can_continue
from corral.engine.host import Host
from corral.engine.outfit import Outfit
from corral.engine.places import repository_of
from corral.engine.recorder import Listener, Recorder, tell
from corral.errors import CorralError
from corral.events import Event, Heard, Moved, Noted
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, Order, Status
from corral.rules import naming, prompt, schedule
from corral.world import workspace
from corral.world.custody import sweep
from corral.world.notice import Bell
from corral.world.store.sqlite import LEASE_SECONDS, Store

FLUSH_SECONDS = 0.05
RENEW_SECONDS = 3.0


class Drive:
    """One run in this process, for as long as this process owns it."""

    def __init__(self, run: str, owner: str, store: Store, dress: Callable[[str], Outfit], listen: Listener) -> None:
        self.run, self.owner, self.store, self._dress, self.listen = run, owner, store, dress, listen
        self.plan = store.run(run).plan
        self.repository = repository_of(self.plan, store.folder)
        self.nodes = {node.id: node for node in self.plan.flow.nodes}
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._courses: dict[str, AttemptCourse] = {}
        self._wake = asyncio.Event()
        self._stopping: str | None = None
        self._waits_until = 0.0
        self._started = False
        self._background: list[asyncio.Task[None]] = []

    async def to_the_end(self) -> None:
        """Go on until the run is over. Cancelled, it leaves attempts as a crash would; `stop` is the polite way."""
        await self._remove_leavings()
        self._take_orders()
        for work in (self._keep_flushing(), self._keep_lease(), self._hear_orders()):
            task = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._wake.set())
            self._background.append(task)
        try:
            while not await self._turn():
                pass
            await self._remove_leavings()
        finally:
            for task in (*self._background, *self._driven.values()):
                task.cancel()
            await asyncio.gather(*self._background, *self._driven.values(), return_exceptions=True)
        self.store.flush()

    def stop(self, reason: str) -> None:
        """End all attempts, keep their work, and let the run reach its end as `stopped`."""
        self._stopping = self._stopping or reason
        for course in self._courses.values():
            course.host.stop.set()
        self._wake.set()

    async def _turn(self) -> bool:
        self._wake.clear()
        with self.store.transaction():
            if not self._started:
                self._started = True
                self._move("running", None)
            finished, wait, records = self._act()
        for record in records:  # driven only once it is stored that they are
            self._drive(record)
        if not finished:
            await self._something_happens(wait)
        return finished

    def _act(self) -> tuple[bool, float | None, list[AttemptRecord]]:
        """Do what is decided; return whether the run is over, until when to wait, and which attempts to drive."""
        actions = schedule.decide(self._situation())
        while settled := [action for action in actions if isinstance(action, schedule.Settle)]:
            for action in settled:
                self._settle(action)
            actions = schedule.decide(self._situation())
        wait: float | None = None
        records: list[AttemptRecord] = []
        if self._park(actions):
            return True, None, []
        for action in actions:
            match action:
                case schedule.Begin():
                    records.append(self._new_attempt(action))
                case schedule.GoOn():
                    sweep(action.attempt)  # first of all: what may be left of it from the engine that died
                    records.append(next(r for r in self.store.attempts(self.run) if r.attempt.id == action.attempt))
                case schedule.WaitUntil():
                    wait = self._wait(action.time)
                case schedule.Finish():
                    self._move(action.status, action.reason)
                    return True, None, []
                case schedule.Settle() | schedule.Park():
                    pass  # done above, or when nothing else is left to do
        return False, wait, records

    def _wait(self, until: float) -> float:
        """Return how long it is until then; say it once."""
        wait = max(0.0, until - time.time())
        if until != self._waits_until:
            self._waits_until = until
            self._note(Noted(f"the next try starts in {wait:.0f} s"))
        return wait

    def _situation(self) -> schedule.Situation:
        return schedule.Situation(
            flow=self.plan.flow,
            nodes=self.store.nodes(self.run),
            attempts=self.store.attempts(self.run),
            driven=frozenset(self._driven),
            retry=self.plan.retry,
            stopping=self._stopping,
            now=time.time(),
        )

    async def _something_happens(self, wait: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        for task in self._background:
            if task.done():
                task.result()  # these never end by themselves: the store or the lease is lost
        for attempt, task in list(self._driven.items()):
            if task.done():
                del self._driven[attempt], self._courses[attempt]
                task.result()  # our own fault is raised here, after it was recorded

    # --- actions

    def _new_attempt(self, action: schedule.Begin) -> AttemptRecord:
        node = self.nodes[action.node]
        came_from = action.retry_of or action.fallback_of
        before = next((r for r in self.store.attempts(self.run) if r.attempt.id == came_from), None)
        with self.store.transaction():
            name = naming.attempt_id(self.run, self.store.next_place(self.run))
            attempt = Attempt(
                id=name,
                number=action.number,
                retry_of=action.retry_of,
                fallback_of=action.fallback_of,
                agent=action.agent.name,
                model=action.agent.model,
                role=node.task.role,
            )
            folder = str(self.store.folder / "workspaces" / name)
            record = AttemptRecord(attempt=attempt, run=self.run, node=node.id, folder=folder, started=time.time())
            if before and action.retry_of and can_continue(before) and Path(before.folder).exists():
                record.folder, record.continues = before.folder, before.attempt.id
                attempt.session = before.attempt.session
            elif before:
                record.fed_back = prompt.feedback(before.attempt)
            record.steers = before.steers if before else ()
            self.store.save_attempt(record)
            self.store.move_node(self.run, NodeState(id=node.id, status="running"))
            self._note(Moved(f"attempt {name}", "running", f"{action.agent}, try {action.number}"), node.id, name)
        return record

    def _drive(self, record: AttemptRecord) -> None:
        node = self.nodes[record.node]
        stop = asyncio.Event()
        if self._stopping:
            stop.set()
        host = Host(self.plan, self.repository, self.store.folder, record.attempt.id, stop)
        recorder = Recorder(record, self.store, self.listen, node.task.budget_usd)
        course = AttemptCourse(recorder, node, lambda: self._dress(record.attempt.agent), host)
        task = asyncio.create_task(course.carry_out())
        task.add_done_callback(lambda _: self._wake.set())
        self._driven[record.attempt.id], self._courses[record.attempt.id] = task, course
        self._take_orders()  # some may have waited for somebody to tell

    def _settle(self, action: schedule.Settle) -> None:
        state = NodeState(
            id=action.node, status=action.status, reason=action.reason, winner=action.winner, why=action.why
        )
        with self.store.transaction():
            self.store.move_node(self.run, state)
            self._note(Moved(f"node {action.node}", action.status, action.reason or action.why), action.node)

    def _park(self, actions: list[schedule.Action]) -> bool:
        """Leave the run to a person where nothing goes on before they say how."""
        parked = [action for action in actions if isinstance(action, schedule.Park)]
        if not parked or len(parked) < len(actions) or self._driven:
            return False
        for action in parked:
            self.store.move_node(self.run, NodeState(id=action.node, status="waiting", reason=action.reason))
            self._note(Moved(f"node {action.node}", "waiting", action.reason), action.node)
        self._move("waiting", parked[0].reason)
        return True

    def _move(self, status: Status, reason: str | None) -> None:
        over = time.time() if status not in OPEN else None
        with self.store.transaction():
            self.store.move_run(self.run, status, reason, over)
            self._note(Moved(f"run {self.run}", status, reason))

    def _note(self, event: Event, node: str | None = None, attempt: str | None = None) -> None:
        self.store.note(self.run, event, at=time.time(), node=node, attempt=attempt)
        tell(self.listen, Heard(self.run, node, attempt, event))

    async def _remove_leavings(self) -> None:
        """Remove workspaces of attempts that are over: a crash may have come between the end and the removal."""
        records = self.store.attempts(self.run)
        taken_over = {record.folder for record in records if record.phase != "over"}
        for place, record in enumerate(records):
            next_one = records[place + 1] if place + 1 < len(records) else None
            parked = record.attempt.status == "limited" or schedule.lost(record.attempt)
            stays = record.kept or record.phase != "over" or record.folder in taken_over
            waits = parked and next_one is None and self.store.run(self.run).status in (*OPEN, "limited")
            if not stays and not waits:
                await workspace.remove(Path(record.folder))
            for name in ("check", "recheck"):
                await workspace.remove(Path(record.folder).with_name(f"{record.attempt.id}-{name}"))

    # --- in the background

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.store.flush()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not self.store.renew_lease(self.run, self.owner, time.time() + LEASE_SECONDS):
                raise CorralError(f"another process has taken over run {self.run}", hint="see `corral ls`")

    def _take_orders(self) -> None:
        for order in self.store.orders(self.run):
            if order.verb == "stop":
                self.stop(f"stopped by {order.by}")
                self.store.take_order(order.id, time.time())
            elif self._courses:  # otherwise it waits for an attempt that can be told
                self.store.take_order(order.id, time.time(), "; ".join(self._steer(order)))

    def _steer(self, order: Order) -> list[str]:
        """Tell every attempt at work what a person wants besides; return what became of it, in words."""
        words: list[str] = []
        for name, course in self._courses.items():
            agent = course.attempt.agent
            self._note(Noted(f"{order.by} says: {order.text}"), course.record.node, name)
            if course.record.phase not in ("new", "working"):
                course.steer(order.text)
                words.append(f"{agent} ({name}) has ended: it is told only if there is another try")
            elif course.steer(order.text):
                words.append(f"told {agent} ({name}), which is at work")
            else:
                words.append(f"{agent} ({name}) does not listen while it works: it is told at its next turn")
        return words

    async def _hear_orders(self) -> None:
        """Learn of orders from other processes as soon as they are written."""
        bell, seen = Bell(self.store.folder), -1
        try:
            while True:
                if (now := self.store.changed()) != seen:
                    seen = now
                    self._take_orders()
                await bell.listen(1.0)
        finally:
            bell.close()
