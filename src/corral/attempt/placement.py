"""The machine of an attempt that does not run here: chosen when one has room, reached, and waited for until then."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptFactory, AttemptRun, AttemptRunner
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.config import loader
from corral.machines.frames import MachineLost
from corral.machines.host import Host, host_of
from corral.machines.local import LocalMachine
from corral.machines.remote.link import MachineLink, current_links
from corral.machines.remote.remote_machine import RemoteMachine
from corral.model import AttemptRecord, RunPlan
from corral.model.errors import CorralError
from corral.model.events import Noted
from corral.model.flow import Node
from corral.rules.schedule.placement import MachineRoom, choose_machine, fitting_machines, wait_reason

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
            return
        self._host.elsewhere = machine
        runner = self._runner = self._make(AttemptMachine(machine, self._host))
        for text in self._steers:
            runner.steer(text)
        try:
            await runner.execute()
        finally:
            await machine.close()

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
                    return await self._reach(current_links(self._host.state).link(name, profiles[name]))
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

    async def _reach(self, link: MachineLink) -> RemoteMachine:
        await link.connect()
        if link.facts is None:
            raise MachineLost(f"the machine `{link.name}` cannot be reached")
        link.check(link.facts)
        epoch = self._events.store.epoch(self.record.run) or 0
        return RemoteMachine(link, self._host, link.facts, self.record.attempt.agent, epoch)

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
            return AttemptRunner(attempt_events, node, toolbox_context.connect_agent, where, toolbox)

        if node.machine is None and record.attempt.machine is None:
            return make_runner(here)
        return PlacedAttempt(attempt_events, node, host, here, make_runner)

    return make_attempt_run
