"""What the toolboxes of one run share: mail, parents and children, who is woken, how children are driven."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from corral.attempt.events import Listener
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import Run
from corral.rules.context import mail
from corral.store.interface import Store
from corral.world.terminal import UserTerminal

LOOK_SECONDS = 1.0


class RunExecutor(Protocol):
    """What drives the runs of a family."""

    def execute(self, run: str, listen: Listener) -> Awaitable[object]: ...
    def resume(self, run: str, listen: Listener) -> Awaitable[object]: ...
    def pause_child(self, run: str) -> None: ...
    async def stop_child(self, run: str) -> None: ...
    def document(self, run: str) -> Run: ...


class Wakeups:
    """Wakes those who wait for something in a run, within this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def ring(self, run: str) -> None:
        for waiting in self._waiting.pop(run, ()):
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, run: str, seconds: float) -> None:
        """Return when it rings for a run, or after `seconds`."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, set()).add(future)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await future
        finally:
            self._waiting.get(run, set()).discard(future)


class ChildRuns:
    """The runs that this process drives, as far as one spawns another."""

    def __init__(self, owner: str, drives: RunExecutor) -> None:
        self.owner, self._executor = owner, drives
        self.wakeups = Wakeups()
        self._tasks: dict[str, asyncio.Task[object]] = {}

    def start(self, run: str, listen: Listener) -> None:
        """Drive a child beside its parent."""
        self._keep(run, self._executor.execute(run, listen))

    def go_on(self, run: str, listen: Listener) -> None:
        """Continue a child that was left when its parent was."""
        if run not in self._tasks:
            self._keep(run, self._executor.resume(run, listen))

    def _keep(self, run: str, driving: Awaitable[object]) -> None:
        task = asyncio.ensure_future(driving)
        self._tasks[run] = task
        task.add_done_callback(lambda done: self._over(run, done))

    async def wait(self, run: str, seconds: float) -> None:
        """Wait until a child is over, or for so long; of one that another process drives we hear nothing."""
        task = self._tasks.get(run)
        await (asyncio.wait([task], timeout=seconds) if task else asyncio.sleep(min(seconds, LOOK_SECONDS)))

    async def stop(self, run: str) -> None:
        """Stop a child and wait until its work is saved; one that nobody drives any more is ended here."""
        await self._executor.stop_child(run)
        await self._wait_ended(run)

    async def pause(self, run: str) -> None:
        """Let a child rest with its parent; one that nobody drives rests already."""
        self._executor.pause_child(run)
        await self._wait_ended(run)

    async def _wait_ended(self, run: str) -> None:
        if (task := self._tasks.get(run)) is not None:
            await asyncio.wait([task])

    def document(self, run: str) -> Run:
        """Return the run document of a child."""
        return self._executor.document(run)

    def abandon(self, run: str) -> None:
        """Leave a child as a crash would."""
        if (task := self._tasks.get(run)) is not None:
            task.cancel()

    def _over(self, run: str, done: asyncio.Task[object]) -> None:
        self._tasks.pop(run, None)
        if not done.cancelled():
            done.exception()  # what became of it is stored; nobody else would ask


class RunContext:
    """All that a toolbox of one run needs besides its own attempt."""

    def __init__(
        self, family: ChildRuns, store: Store, resolve: Callable[[str, str | None], ResolvedAgent], listen: Listener
    ) -> None:
        self.child_runs, self.store, self.connect_agent, self.listen = family, store, resolve, listen
        self.mail = store.mail(mail.MOST_DELIVERIES)
        self.lineage = store.lineage
        self.terminal: UserTerminal | None = None  #: of the user who works by hand in this run
