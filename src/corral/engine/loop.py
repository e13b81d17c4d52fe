"""Drive one run: decide, act, wait for something to happen, decide again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from corral.engine.asking import Desk
from corral.engine.attempt import can_continue
from corral.engine.evidence import BESIDE
from corral.engine.gates import Gates
from corral.engine.local import Course, Place
from corral.engine.money import allowed_usd
from corral.engine.orders import Orders
from corral.engine.telling import Listener, tell
from corral.errors import CorralError
from corral.events import Event, Heard, Moved, Noted
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, Status
from corral.rules import lanes, naming, prompt
from corral.rules.schedule import Action, Ask, Begin, Expand, Finish, GoOn, Park, Schedule, Settle, WaitUntil
from corral.world import workspace
from corral.world.custody import sweep
from corral.world.store.sqlite import LEASE_SECONDS, Store

FLUSH_SECONDS = 0.05
RENEW_SECONDS = 3.0


class Drive:
    """One run in this process, for as long as this process owns it."""

    def __init__(self, run: str, owner: str, store: Store, place: Place, listen: Listener) -> None:
        self.run, self.owner, self.store, self._place, self.listen = run, owner, store, place, listen
        self.plan = store.run(run).plan
        self.schedule = Schedule(self.plan.flow, self.plan.retry)
        self.courses: dict[str, Course] = {}
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._orders = Orders(self)
        self._gates = Gates(Desk(run, store, listen))
        self.patient = False  #: it waits for a person's answer instead of leaving the run to them
        self._wake = asyncio.Event()
        self._waits_until = 0.0
        self._background: list[asyncio.Task[None]] = []

    async def to_the_end(self) -> None:
        """Go on until the run is over. Cancelled, it leaves attempts as a crash would; `stop` is the polite way."""
        records = self.store.attempts(self.run)
        await self._remove_leavings(records)
        self.schedule.allowed_usd = allowed_usd(self.store, self.run)
        self.schedule.load(self.store.nodes(self.run), records)
        self._orders.take()
        for work in (self._keep_flushing(), self._keep_lease(), self._orders.hear()):
            task = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._wake.set())
            self._background.append(task)
        try:
            self._move("running", None)
            while not await self._turn():
                pass
            await self._remove_leavings(self.store.attempts(self.run))
        finally:
            for task in (*self._background, *self._driven.values()):
                task.cancel()
            await asyncio.gather(*self._background, *self._driven.values(), self._gates.close(), return_exceptions=True)
        self.store.flush()

    def stop(self, reason: str) -> None:
        """End all attempts, keep their work, and let the run reach its end as `stopped`."""
        self.schedule.stop(reason)
        for course in self.courses.values():
            course.stop()
        self._wake.set()

    def note(self, event: Event, node: str | None = None, attempt: str | None = None) -> None:
        self.store.note(self.run, event, at=time.time(), node=node, attempt=attempt)
        tell(self.listen, Heard(self.run, node, attempt, event))

    # --- one turn

    def look_up(self) -> None:
        """Look whether a person has answered."""
        if self._gates.waiting:
            self._wake.set()

    async def _turn(self) -> bool:
        self._wake.clear()
        with self.store.transaction():
            answered = [action for settle in self._gates.answered() for action in self.schedule.ended(settle)]
            finished, wait, records = self._act([*answered, *self.schedule.decide(time.time())])
        for record in records:  # driven only once it is stored that they are
            self._drive(record)
        if not finished:
            await self._something_happens(wait)
        return finished

    def _act(self, actions: list[Action]) -> tuple[bool, float | None, list[AttemptRecord]]:
        """Do what is decided; return whether the run is over, until when to wait, and which attempts to drive."""
        records = [record for action in actions if (record := self._do(action))]
        if actions and isinstance(last := actions[-1], Finish):
            if last.status != "over_budget":  # that it asks whether it may go on still holds
                self._gates.withdraw(f"the run is {last.status}")
            self._move(last.status, last.reason)
            return True, None, []
        times = [action.time for action in actions if isinstance(action, WaitUntil)]
        wait = self._wait(min(times)) if times else None
        idle = wait is None and not records and not self._driven
        if idle and (self._gates.parked or (self._gates.waiting and not self.patient)):
            self._leave_to_person()
            return True, None, []
        if (deadline := self._gates.next_deadline()) is not None:
            due = max(0.0, deadline - time.time())
            wait = due if wait is None else min(wait, due)
        return False, wait, records

    def _do(self, action: Action) -> AttemptRecord | None:
        """Do one thing that is decided; return the attempt that is to be driven for it."""
        match action:
            case Begin():
                return self._new_attempt(action)
            case GoOn():
                sweep(action.attempt)  # first of all: what may be left of it from the engine that died
                return action.record
            case Settle():
                self._settle(action)
            case Expand():
                self.store.add_nodes(self.run, [node.id for node in action.nodes])
            case Park():
                self._gates.park(action)
            case Ask():
                self._ask(action.node)
            case _:
                pass
        return None

    def _wait(self, until: float) -> float:
        """Return how long it is until then; say it once."""
        wait = max(0.0, until - time.time())
        if until != self._waits_until:
            self._waits_until = until
            self.note(Noted(f"the next try starts in {wait:.0f} s"))
        return wait

    async def _something_happens(self, wait: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        for task in self._background:
            if task.done():
                task.result()  # these never end by themselves: the store or the lease is lost
        for attempt, task in list(self._driven.items()):
            if task.done():
                record = self.courses.pop(attempt).record
                del self._driven[attempt]
                task.result()  # our own fault is raised here, after it was recorded
                self.schedule.heard(record, driven=False)

    # --- actions

    def _new_attempt(self, action: Begin) -> AttemptRecord:
        came_from = action.onto or action.retry_of or action.fallback_of
        before = self.schedule.record(came_from, action.node) if came_from else None
        name = naming.attempt_id(self.run, self.store.next_place(self.run))
        attempt = Attempt(
            id=name,
            number=action.number,
            retry_of=action.retry_of,
            fallback_of=action.fallback_of,
            agent=action.agent.name,
            model=action.agent.model,
            role=self.schedule.nodes[action.node].task.role,
        )
        record = AttemptRecord(
            attempt=attempt,
            run=self.run,
            node=action.node,
            lane=action.lane,
            folder=str(self.store.folder / "workspaces" / name),
            heads=self.schedule.heads(action.node, self.plan.base),
            started=time.time(),
        )
        if before:
            self._after(record, before, action)
        self.store.save_attempt(record)
        self.store.move_node(self.run, NodeState(id=action.node, status="running"))
        self.note(Moved(f"attempt {name}", "running", f"{action.agent}, try {action.number}"), action.node, name)
        return record

    def _after(self, record: AttemptRecord, before: AttemptRecord, action: Begin) -> None:
        """Let an attempt go on from an earlier one: with its session, with its work, or at least with its lesson."""
        if action.retry_of and can_continue(before) and Path(before.folder).exists():
            record.folder, record.continues = before.folder, before.attempt.id
            record.base, record.conflicts = before.base, before.conflicts
            record.attempt.session = before.attempt.session
        else:
            record.fed_back = prompt.feedback(before.attempt)
        if action.onto and before.attempt.status == "over_budget":
            record.heads, record.start = before.heads, before.attempt.commit
        elif action.onto and before.attempt.commit:
            record.heads = (before.attempt.commit,)
        record.steers = before.steers

    def _drive(self, record: AttemptRecord) -> None:
        course = self._place(record, self.schedule.node(record.node))
        if self.schedule.stopping:
            course.stop()
        self.schedule.heard(record, driven=True)
        task = asyncio.create_task(course.carry_out())
        task.add_done_callback(lambda _: self._wake.set())
        self._driven[record.attempt.id], self.courses[record.attempt.id] = task, course
        self._orders.take()  # some may have waited for somebody to tell

    def _settle(self, action: Settle) -> None:
        state = NodeState(
            id=action.node, status=action.status, reason=action.reason, winner=action.winner, why=action.why
        )
        self.store.move_node(self.run, state)
        self.note(Moved(f"node {action.node}", action.status, action.reason or action.why), action.node)

    def _ask(self, node: str) -> None:
        self._gates.ask(self.schedule.node(node), self.plan.epoch)
        self.store.move_node(self.run, NodeState(id=node, status="waiting", reason="waits for an answer"))

    def _leave_to_person(self) -> None:
        """Leave the run to a person where nothing goes on before they say how."""
        for node, reason in self._gates.parked.items():
            self.store.move_node(self.run, NodeState(id=node, status="waiting", reason=reason))
            self.note(Moved(f"node {node}", "waiting", reason), node)
        self._move("waiting", self._gates.words())

    def _move(self, status: Status, reason: str | None) -> None:
        over = time.time() if status not in OPEN else None
        with self.store.transaction():
            self.store.move_run(self.run, status, reason, over)
            self.note(Moved(f"run {self.run}", status, reason))

    async def _remove_leavings(self, records: list[AttemptRecord]) -> None:
        """Remove workspaces of attempts that are over: a crash may have come between the end and the removal."""
        in_use = {record.folder for record in records if record.phase != "over" or record.kept}
        followed = {record.attempt.retry_of for record in records}
        parked = self.store.run(self.run).status in (*OPEN, "limited")
        for record in records:
            waits = record.attempt.status == "limited" or lanes.lost(record.attempt)
            if record.folder in in_use or (waits and parked and record.attempt.id not in followed):
                continue
            folder = Path(record.folder)
            for place in (folder, *(folder.with_name(f"{record.attempt.id}-{name}") for name in BESIDE)):
                if place.exists():
                    await workspace.remove(place)

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
