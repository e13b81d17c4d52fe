"""The Python API: `Engine`, `Task`, `Flow`, and `run` and its like for one line without `await`."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from corral.engine.engine import Engine as Inner
from corral.engine.views.compare import Comparison
from corral.engine.views.evidence import EvidenceView
from corral.frontends.python.flows import Flow
from corral.frontends.python.tasks import RunOptions, Task, Wanted, request
from corral.model import Entry, Run
from corral.model.events import Listener, RunEvent, StoredEvent
from corral.model.merge import MergeRequest, Preview, Strategy

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Engine", "Flow", "Task", "diff", "merge", "run", "show", "undo"]
T = TypeVar("T")
BY = "a program"


def run(wanted: Wanted, repo: str | Path = ".", listen: Listener | None = None, **active: Unpack[RunOptions]) -> Run:
    """Carry a task or a flow out in this process and return its run document, whatever became of it: see its `status`.

    What is wrong with the request, the repository or the settings raises `corral.BadRequest` before anything is
    started. Ctrl-C stops the agents and keeps their work; `corral resume` continues a run whose process died.
    """
    return _once(lambda engine: engine.run(wanted, repo, listen, **active))


def show(run: str = "@last") -> Run:
    """Return the document of a run."""

    async def look(engine: Engine) -> Run:
        return engine.show(run)

    return _once(look)


def diff(run: str = "@last", attempt: str | None = None) -> str:
    """Return the change of a run as a patch."""
    return _once(lambda engine: engine.diff(run, attempt))


def merge(run: str = "@last", *, into: str | None = None, strategy: Strategy = "auto") -> Run:
    """Merge a run; where it is in conflict nothing was moved, and `merge.status` says so."""
    return _once(lambda engine: engine.merge(run, into=into, strategy=strategy))


def undo(run: str = "@last") -> Run:
    """Take back the last merge of a run."""
    return _once(lambda engine: engine.undo(run))


def _once(work: Callable[[Engine], Awaitable[T]]) -> T:
    async def carry_out() -> T:
        async with Engine() as engine:
            if threading.current_thread() is threading.main_thread():
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGINT, engine.stop_all, "stopped by SIGINT")
            return await work(engine)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(carry_out())
    with ThreadPoolExecutor(max_workers=1) as own:  # a notebook has a loop already
        return own.submit(lambda: asyncio.run(carry_out())).result()


class Engine:
    """The same engine as the command line's, with the same runs: `async with corral.Engine() as engine`.

    Runs that it started and that are not over when the block ends are stopped, and their work is kept.
    """

    def __init__(self, home: str | Path | None = None) -> None:
        self._inner = Inner(Path(home) if home is not None else None)
        self._tasks: dict[str, asyncio.Task[Run]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop what still runs here, and close the store."""
        if any(not task.done() for task in self._tasks.values()):
            self._inner.active_runs.stop("the program that started it has ended")
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._inner.close()

    # --- begin

    async def run(
        self, wanted: Wanted, repo: str | Path = ".", listen: Listener | None = None, **active: Unpack[RunOptions]
    ) -> Run:
        """Carry a task or a flow out and return its run document, whatever became of it: see its `status`.

        What is wrong with the request raises `corral.BadRequest` before anything is started.
        """
        return await self.wait(await self.start(wanted, repo, listen, **active))

    async def start(
        self, wanted: Wanted, repo: str | Path = ".", listen: Listener | None = None, **active: Unpack[RunOptions]
    ) -> str:
        """Begin a task or a flow and return its run, which continues in this process; see `events`, `wait`, `stop`."""
        run = await self._inner.submit(request(wanted, repo, active))
        self._tasks[run] = asyncio.create_task(self._inner.execute(run, listen or _ignore_event))
        return run

    async def resume(self, run: str, listen: Listener | None = None) -> Run:
        """Continue a run that was cut off, or waits; return it when that is over."""
        return await self._inner.resume(run, listen or _ignore_event)

    async def wait(self, run: str) -> Run:
        """Return a run once it is over, or waits for a user."""
        found = self._inner.find(run)
        if task := self._tasks.get(found):
            return await asyncio.shield(task)
        async with aclosing(self._inner.history.watch(found)) as news:
            async for _ in news:
                pass  # only the end of the news matters
        return self.show(found)

    # --- look

    def show(self, run: str) -> Run:
        """Return the document of a run: by its id, the beginning of one, or `@last`."""
        return self._inner.show(run)

    def runs(self, most: int = 50) -> list[Run]:
        """Return the newest runs, newest first."""
        return [self._inner.show(line.run) for line in self._inner.history.runs(most)]

    async def events(self, run: str, after: int = 0) -> AsyncIterator[StoredEvent]:
        """Yield what happens in a run, from the first event (or after a sequence) until it is over."""
        async with aclosing(self._inner.history.watch(run, after)) as news:
            async for new in news:
                for stored in new:
                    yield stored

    async def diff(self, run: str, attempt: str | None = None) -> str:
        """Return the change of a run, or of one attempt, as a patch."""
        parts: list[bytes] = []
        await self._inner.work.diff(run, attempt, parts.append)
        return b"".join(parts).decode(errors="replace")

    def compare(self, run: str) -> Comparison:
        """Return the attempts of a run side by side."""
        return self._inner.work.compare(run)

    def evidence(self, run: str = "@last", attempt: str | None = None) -> EvidenceView:
        """Return how the result of a run was checked: its winner's, or that of one attempt."""
        return self._inner.work.evidence(run, attempt)

    def inbox(self) -> list[Entry]:
        """Return what waits for a user."""
        return self._inner.inbox.entries()

    # --- act

    def rename(self, run: str, name: str) -> Run:
        """Give a run a name; an empty one takes it away."""
        return self._inner.show(self._inner.control.rename(run, name, BY))

    async def stop(self, run: str) -> Run:
        """Stop a run of any process; its work is kept."""
        return await self._inner.stop(run, BY)

    async def steer(self, run: str, text: str) -> str:
        """Tell the agents of a run something while they work; return what became of it, in words."""
        return await self._inner.control.steer(run, text, BY)

    async def answer(self, entry: str, text: str) -> Entry:
        """Answer what waits for a user."""
        return await self._inner.inbox.answer(entry, text, BY)

    async def preview(self, run: str, *, into: str | None = None, strategy: Strategy = "auto") -> Preview:
        """Say what a merge would do; nothing is changed."""
        return await self._inner.merges.preview(MergeRequest(run=self._inner.find(run), into=into, strategy=strategy))

    async def merge(self, run: str, *, into: str | None = None, strategy: Strategy = "auto") -> Run:
        """Merge a run; where it is in conflict nothing was moved, and `merge.status` says so."""
        name = self._inner.find(run)
        await self._inner.merges.merge(MergeRequest(run=name, into=into, strategy=strategy))
        return self._inner.show(name)

    async def undo(self, run: str) -> Run:
        """Take back the last merge of a run: refs and files are exactly as they were."""
        name = self._inner.find(run)
        await self._inner.merges.undo(name, Path(self._inner.show(name).repo), _ignore_text)
        return self._inner.show(name)

    def stop_all(self, why: str) -> None:
        """Stop everything that this engine drives, now."""
        self._inner.active_runs.stop(why)


def _ignore_event(_: RunEvent) -> None:
    """Listen to nothing."""


def _ignore_text(_: str) -> None:
    """Say nothing."""
