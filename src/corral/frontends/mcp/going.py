"""The runs that this process drives for its clients: begun, waited for, stopped, or left to a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from corral.engine.engine import Engine
from corral.errors import BadRequest
from corral.events import Heard
from corral.model import Request, Run

MOST_AT_ONCE = 16  #: runs that one process drives; more are refused in words


class Going:
    """Runs at work. On stdio the process ends with its client; a server stays, and drives background runs itself."""

    def __init__(self, engine: Engine, *, stays: bool) -> None:
        self.engine, self._stays = engine, stays
        self._tasks: dict[str, asyncio.Task[Run]] = {}
        self._ending: set[asyncio.Task[Run]] = set()
        self._opening = 0

    async def submit(self, request: Request) -> str:
        """Open a run and drive it here."""
        self._room()
        self._opening += 1  # many may ask at once
        try:
            run = await self.engine.submit(request)
            self._start(run, self.engine.drive(run, _unheard))
        finally:
            self._opening -= 1
        return run

    async def submit_apart(self, request: Request) -> str:
        """Open a run that goes on when its client is gone."""
        if self._stays:
            return await self.submit(request)
        run = await self.engine.submit(request)
        await self.engine.drives.detach(run)
        return run

    def resume(self, run: str) -> None:
        self._room()
        self._start(run, self.engine.resume(run, _unheard))

    async def resume_apart(self, run: str) -> None:
        if self._stays:
            self.resume(run)
        else:
            await self.engine.drives.detach(run)

    def task(self, run: str) -> asyncio.Task[Run] | None:
        """Return what drives a run here."""
        return self._tasks.get(run)

    def stop(self, run: str, by: str) -> None:
        """Have a run stopped; nobody waits for that."""
        if run in self._tasks:
            task = asyncio.get_running_loop().create_task(self.engine.stop(run, by))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self, why: str) -> None:
        """Stop everything that is driven here, and keep its work."""
        self.engine.drives.stop(why)
        await asyncio.gather(*self._tasks.values(), *self._ending, return_exceptions=True)

    def _start(self, run: str, work: Coroutine[Any, Any, Run]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[run] = task

        def over(done: asyncio.Task[Run]) -> None:
            if self._tasks.get(run) is done:
                del self._tasks[run]
            if not done.cancelled():
                done.exception()  # told by whoever waits; nobody may

        task.add_done_callback(over)

    def _room(self) -> None:
        if len(self._tasks) + self._opening >= MOST_AT_ONCE:
            raise BadRequest(
                f"{MOST_AT_ONCE} runs are at work here already", hint="wait for one, or start it with background"
            )


def _unheard(_: Heard) -> None:
    """Hear nothing: whoever waits reads what is stored."""
