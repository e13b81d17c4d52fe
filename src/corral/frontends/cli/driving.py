"""What `run`, `resume` and `demo` share: drive a run in the foreground, obey signals, print what came of it."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable

import click

from corral.engine.engine import Engine
from corral.frontends.cli import words
from corral.frontends.cli.progress import Plain, display
from corral.model import OPEN, Run, document

EXIT_CODES = {"done": 0, "over_budget": 4, "limited": 5, "stopped": 130, "waiting": 3, "paused": 3}


def in_foreground(work: Callable[[Engine, Plain], Awaitable[Run]], *, quiet: bool, as_json: bool) -> int:
    """Carry out `work` with progress on stderr; a signal stops the agents and keeps what they did."""
    gc.enable()
    engine = Engine()
    try:
        run = asyncio.run(_with_signals(engine, work, quiet=quiet or as_json))
    finally:
        engine.close()
    if as_json:
        click.echo(document(run).decode())
    else:
        click.echo("\n".join(words.summary(run)))
    return exit_code(run)


async def _with_signals(engine: Engine, work: Callable[[Engine, Plain], Awaitable[Run]], *, quiet: bool) -> Run:
    loop = asyncio.get_running_loop()
    with display(quiet=quiet) as shown:

        def stop(name: str) -> None:
            engine.stop_here(f"stopped by {name}")  # before a word is said: the terminal may be gone
            shown.say("stopping: ending the agents, keeping their work")

        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(sent, stop, sent.name)
        return await work(engine, shown)


def exit_code(run: Run) -> int:
    if run.status in OPEN or run.merge.status == "conflict":
        return 3
    return EXIT_CODES.get(run.status, 1)
