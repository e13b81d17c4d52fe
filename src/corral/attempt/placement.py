"""The attempts of a run at work: here, or on another machine that is waited for, chosen and reached."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from corral.attempt.agent_work import AgentWork
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptFactory, AttemptRun, AttemptRunner
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.config import loader
from corral.machines.calls import PlaceAttempt
from corral.machines.frames import MachineLost
from corral.machines.host import Host, host_of
from corral.machines.local import LocalMachine
from corral.machines.remote.link import MachineLink, current_links
from corral.machines.remote.remote_machine import RemoteMachine
from corral.model import AttemptRecord, RunPlan
from corral.model.errors import CorralError
from corral.model.events import Noted
from corral.model.flow import Node
from corral.rules.schedule.placement import MachineRoom, choose_machine, fitting_machines, node_labels, wait_reason

LOOK_SECONDS = 0.4  #: while others hold all slots
AGAIN_SECONDS = 5.0  #: until a machine that was lost is tried again

RunnerFactory = Callable[[AttemptMachine], AttemptRunner]


class PlacedAttempt:
    """One attempt that waits for its machine, and then is carried out there."""

    def __init__(
        self, events: AttemptEvents, node: Node, host: Host, here: AttemptMachine, make: RunnerFactory
    ) -> None:
        """`here` is what an attempt fails on that never gets a machine."""
        self._events, self._node, self._host, self._here, self._make = events, node, host, here, make
        self._runner: AttemptRunner | None = None
        self._paused = False
        self._steers: list[str] = []

    @property
    def record(self) -> AttemptRecord:
        return self._events.record

    async def execute(self) -> None:
        try:
            machine = await self._place()
        except CorralError as error:
            await self._make(self._here).fail(error)
            return
        if machine is None:  # it was stopped while it waited
            self._runner = self._make(self._here)
            if self._paused:
                self._runner.pause()
            await self._runner.execute()
            await self._runner.clean_up()
            return
        self._host.elsewhere = machine
        runner = self._runner = self._make(AttemptMachine(machine, self._host))
        for text in self._steers:
            runner.steer(text)
        try:
            await runner.execute()
            await runner.clean_up()
        finally:
            await machine.close()

    async def clean_up(self) -> None:
        """Leave nothing: it cleans up while its machine can be reached."""

    @property
    def is_starting(self) -> bool:
        return self._runner is not None and self._runner.is_starting

    def steer(self, text: str) -> bool:
        if self._runner:
            return self._runner.steer(text)
        self._steers.append(text)
        return False

    def condense(self, by: str) -> bool:
        return self._runner is not None and self._runner.condense(by)

    def stop(self) -> None:
        self._host.stop.set()

    def pause(self) -> None:
        self._paused = True
        if self._runner:
            self._runner.pause()
        self._host.stop.set()

    # --- its machine

    async def _place(self) -> RemoteMachine | None:
        """Return its machine; None where it is to stop before it has one."""
        record, lost = self.record, dict[str, str]()
        deadline = time.monotonic() + self._node.task.time_limit_seconds
        while not self._host.stop.is_set():
            profiles = loader.load(None).machines
            rooms = [MachineRoom(name=name, slots=each.slots, labels=each.labels) for name, each in profiles.items()]
            fitting = fitting_machines(record.attempt.machine or self._node.machine, rooms)
            name = self._take_slot(fitting, lost)
            if name is not None:
                try:
                    link = current_links(self._host.state).link(name, profiles[name])
                    return await self._reach(link, deadline)
                except MachineLost as error:
                    lost[name] = str(error)
                    self._give_back()
                    continue  # another may do
            if time.monotonic() > deadline:
                raise MachineLost(record.waits)
            await self._pause(AGAIN_SECONDS if lost else LOOK_SECONDS)
            lost.clear()
        return None

    def _take_slot(self, fitting: list[MachineRoom], lost: dict[str, str]) -> str | None:
        record, store = self.record, self._events.store
        with store.transaction():
            used = store.slots.by_machine()
            if record.attempt.machine:
                used[record.attempt.machine] = used.get(record.attempt.machine, 1) - 1  # its own
            name = choose_machine(fitting, used, lost)
            if name is None:
                self._waits(wait_reason(fitting, used, lost))
                return None
            store.slots.place(record.attempt.id, name)
            record.attempt.machine = name
            self._waits("")
        return name

    def _give_back(self) -> None:
        store, record = self._events.store, self.record
        with store.transaction():
            store.slots.place(record.attempt.id, None)
            if record.phase == "new":
                record.attempt.machine = None
            store.save_attempt(record)

    async def _reach(self, link: MachineLink, deadline: float) -> RemoteMachine | None:
        await link.connect()
        epoch = self._events.store.epoch(self.record.run) or 0
        profile = link.profile
        order = PlaceAttempt(
            attempt=self._host.attempt,
            epoch=epoch,
            command=profile.command or ("corral", "host"),
            resources=profile.resources,
            labels=node_labels(self._node.machine, profile.labels),
            lease_seconds=profile.lease_seconds,
        )
        while isinstance(placed := await link.place(order), str):
            if time.monotonic() > deadline:
                raise MachineLost(placed)
            self._waits(f"waits for a machine: {placed}")
            if self._host.stop.is_set():
                return None
            await asyncio.sleep(LOOK_SECONDS)
        self._waits("")
        try:
            await placed.connect()
            if placed.facts is None:
                raise MachineLost(f"the machine `{link.name}` cannot be reached")
            placed.check(placed.facts)
        except CorralError:
            await placed.release(self._host.attempt)
            raise
        return RemoteMachine(placed, self._host, placed.facts, self.record.attempt.agent, epoch)

    def _waits(self, why: str) -> None:
        """Store why it has not started yet, so that its run shows it; empty: it waits no more."""
        record = self.record
        if why and why != record.waits:
            self._events.emit(Noted(why))
        record.waits = why
        self._events.store.save_attempt(record)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._host.stop.wait()


def place_attempts(plan: RunPlan, toolbox_context: RunContext) -> AttemptFactory:
    """Return what carries out the attempts of a run: in this process, or on the machines that their nodes ask for."""
    store = toolbox_context.store
    repository = repository_of(plan, store.folder)

    def make_attempt_run(record: AttemptRecord, node: Node) -> AttemptRun:
        host = host_of(plan, node.task, repository, store.folder, record)
        here = AttemptMachine(LocalMachine(host), host)
        attempt_events = AttemptEvents(record, store, toolbox_context.listen, node.task)

        def make_runner(where: AttemptMachine) -> AttemptRunner:
            toolbox = AttemptToolbox(toolbox_context, attempt_events, node, where)
            return AttemptRunner(AgentWork(attempt_events, node, toolbox_context.connect_agent, where, toolbox))

        if node.machine is None and record.attempt.machine is None:
            return make_runner(here)
        return PlacedAttempt(attempt_events, node, host, here, make_runner)

    return make_attempt_run


class RunningAttempts:
    """The attempts of one run that are at work."""

    def __init__(self, place: AttemptFactory, wake: Callable[[], None]) -> None:
        """`wake` is called when one of them has ended."""
        self._place, self._wake = place, wake
        self.runs: dict[str, AttemptRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._halted: set[str] = set()

    def start(self, record: AttemptRecord, node: Node, *, stopping: bool) -> None:
        attempt_run = self._place(record, node)
        if stopping:
            attempt_run.stop()
        task = asyncio.create_task(attempt_run.execute())
        task.add_done_callback(lambda _: self._wake())
        self._tasks[record.attempt.id], self.runs[record.attempt.id] = task, attempt_run

    def halt(self, attempt: str) -> bool:
        """Stop one; return whether this is the first time."""
        if attempt in self._halted or attempt not in self.runs:
            return False
        self._halted.add(attempt)
        self.runs[attempt].stop()
        return True

    def stop(self) -> None:
        for attempt_run in self.runs.values():
            attempt_run.stop()

    def pause(self, node: str | None) -> None:
        """Pause those of a node, or all."""
        for attempt_run in self.runs.values():
            if node is None or attempt_run.record.node == node:
                attempt_run.pause()

    def take_ended(self) -> Iterator[tuple[AttemptRun, asyncio.Task[None]]]:
        """Return those that have ended, each once, with the task that may have failed."""
        for attempt, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[attempt]
                yield self.runs.pop(attempt), task

    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Return what carries them out: cancelled, it leaves them as a crash would."""
        return tuple(self._tasks.values())
