"""What programs use: `Engine`, `Task`, `Flow`, and `run` and its like for those who want one line and no `await`."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, Unpack

from corral.frontends.python.engine import Engine
from corral.frontends.python.flows import Flow
from corral.frontends.python.tasks import RunOptions, Task, Wanted
from corral.model import Run
from corral.model.events import Listener
from corral.model.merge import Strategy

__all__ = ["Engine", "Flow", "Task", "diff", "merge", "run", "show", "undo"]
T = TypeVar("T")


def run(wanted: Wanted, repo: str | Path = ".", listen: Listener | None = None, **active: Unpack[RunOptions]) -> Run:
    """Carry a task or a flow out in this process and return its run document, whatever became of it: see its `status`.

    What is wrong with the request, the repository or the settings raises `corral.BadRequest` before anything is
    started. Ctrl-C stops the agents and keeps their work; a run whose process dies goes on with `corral resume`.
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
    """Land a run; where it is in conflict nothing was moved, and `merge.status` says so."""
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
