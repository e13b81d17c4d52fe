"""The runs that are driven for clients on stdio: begun, waited for, stopped, or left to a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from corral.engine.engine import Engine
from corral.frontends.mcp.permissions import Visitor
from corral.model import Request, Run
from corral.model.errors import BadRequest
from corral.model.events import RunEvent

MOST_AT_ONCE = 16  #: runs that one process drives; more are refused in words


class ClientRuns(Protocol):
    """Who drives the runs that clients ask for."""

    engine: Engine

    async def submit(self, request: Request, visitor: Visitor) -> str:
        """Open a run and drive it here, at once: a client waits for it."""
        ...

    async def submit_apart(self, request: Request, visitor: Visitor) -> str:
        """Open a run that continues when its client is gone."""
        ...

    async def resume(self, run: str) -> None: ...

    async def resume_apart(self, run: str) -> None: ...

    def task(self, run: str) -> asyncio.Task[Any] | None:
        """Return what drives a run here."""
        ...

    def stop(self, run: str, by: str) -> None:
        """Have a run stopped that nobody waits for any more."""
        ...


class StdioRuns:
    """Runs at work for one client: the process ends with it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._tasks: dict[str, asyncio.Task[Run]] = {}
        self._ending: set[asyncio.Task[Run]] = set()
        self._opening = 0

    async def submit(self, request: Request, visitor: Visitor) -> str:  # noqa: ARG002 -- who starts us may everything
        refuse_more_than(MOST_AT_ONCE, len(self._tasks) + self._opening)
        self._opening += 1  # many may ask at once
        try:
            run = await self.engine.submit(request)
            self._start(run, self.engine.execute(run, _ignore_event))
        finally:
            self._opening -= 1
        return run

    async def submit_apart(self, request: Request, visitor: Visitor) -> str:  # noqa: ARG002
        run = await self.engine.submit(request)
        await self.engine.active_runs.detach(run)
        return run

    async def resume(self, run: str) -> None:
        refuse_more_than(MOST_AT_ONCE, len(self._tasks) + self._opening)
        self._start(run, self.engine.resume(run, _ignore_event))

    async def resume_apart(self, run: str) -> None:
        await self.engine.active_runs.detach(run)

    def task(self, run: str) -> asyncio.Task[Run] | None:
        return self._tasks.get(run)

    def busy(self) -> bool:
        """Tell whether a run is driven here."""
        return bool(self._tasks)

    def stop(self, run: str, by: str) -> None:
        if run in self._tasks:
            task = asyncio.get_running_loop().create_task(self.engine.stop(run, by))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self, why: str) -> None:
        """Stop everything that is driven here, and keep its work."""
        self.engine.active_runs.stop(why)
        await asyncio.gather(*self._tasks.values(), *self._ending, return_exceptions=True)

    def _start(self, run: str, work: Coroutine[Any, Any, Run]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[run] = task

        def over(done: asyncio.Task[Run]) -> None:
            if self._tasks.get(run) is done:
                del self._tasks[run]
            if not done.cancelled():
                done.exception()  # a caller that waits reports it; there may be none

        task.add_done_callback(over)


def refuse_more_than(most: int, number: int) -> None:
    if number >= most:
        raise BadRequest(f"{most} runs are at work here already", hint="wait for one, or start it with background")


def _ignore_event(_: RunEvent) -> None:
    """Hear nothing: callers that wait read the store."""
