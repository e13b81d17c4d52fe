"""Merges that continue in this server, whether or not someone still looks at the page that asked for them."""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct, field

from corral.engine.engine import Engine
from corral.frontends.web.problems import RefusedRequest
from corral.model.errors import CorralError
from corral.model.merge import MergeRequest

AT_ONCE_SECONDS = 1.0  #: what is over by then needs no screen that follows it
MOST_KEPT = 200  #: that are remembered


class RunningMerge(Struct, kw_only=True):
    """A merge that this server was asked for, for as long as it remembers."""

    agent: str = ""  #: that settles its conflicts
    began: float
    said: list[str] = field(default_factory=list[str])
    state: str = ""  #: in which it has ended
    trouble: CorralError | None = None
    over: bool = False


class RunningMerges:
    """What one server merges."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, RunningMerge] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def of(self, run: str) -> RunningMerge | None:
        return self._known.get(run)

    async def begin(self, request: MergeRequest) -> RunningMerge:
        """Start a merge; return when it is over, or after a moment. What speaks against it by then is raised."""
        run = request.run
        if run in self._tasks:
            raise RefusedRequest(
                409, "merging", "this run is being merged already", hint="its screen shows how far it is"
            )
        while len(self._known) >= MOST_KEPT:
            del self._known[next(iter(self._known))]
        merging = self._known[run] = RunningMerge(agent=request.resolve_with or "", began=time.time())
        task = self._tasks[run] = asyncio.create_task(self._merge(request, merging))
        await asyncio.wait((task,), timeout=AT_ONCE_SECONDS)
        if merging.trouble and merging.over and not merging.agent:
            self._known.pop(run, None)  # reported at once: nobody needs it again
            raise merging.trouble
        return merging

    async def _merge(self, request: MergeRequest, merging: RunningMerge) -> None:
        def say(words: str) -> None:
            merging.said.append(words)
            self._note(request.run, words)

        try:
            record = await self._engine.merges.merge(request, say)
            merging.state = record.state
            if merging.agent:
                merging.said.append("settled and merged" if record.state == "merged" else "it is left to you")
        except CorralError as error:
            merging.trouble = error
        except Exception as error:  # noqa: BLE001 -- the page must show unexpected errors too
            merging.trouble = CorralError(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            merging.trouble = CorralError("the server was ended meanwhile", hint="merge it again: nothing is half done")
            raise
        finally:
            merging.over = True
            self._tasks.pop(request.run, None)
            if merging.trouble:
                self._note(request.run, f"not merged: {str(merging.trouble).partition(chr(10))[0]}")

    def _note(self, run: str, words: str) -> None:
        """Write it into the log of the run, where watchers see it at once."""
        self._engine.history.note(run, words)

    async def close(self) -> None:
        """Leave running merges as after a crash: the next merge ends or forgets what was begun."""
        active = list(self._tasks.values())
        for task in active:
            task.cancel()
        await asyncio.gather(*active, return_exceptions=True)
