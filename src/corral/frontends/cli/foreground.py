"""What `run`, `resume` and `demo` share: drive a run in the foreground, obey signals, print what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import click

from corral.engine.engine import Engine
from corral.frontends import run_text
from corral.frontends.cli.progress import Plain, Silent
from corral.frontends.user_name import current_user
from corral.model import OPEN, Entry, Run, document

EXIT_CODES = {"done": 0, "over_budget": 4, "limited": 5, "stopped": 130, "waiting": 3, "paused": 3}


def in_foreground(work: Callable[[Engine, Plain], Awaitable[Run]], *, quiet: bool, as_json: bool) -> int:
    """Carry out `work` with progress on stderr; a signal stops the agents and keeps what they did."""
    gc.freeze()  # what was loaded stays: it need not be looked through again and again
    gc.enable()
    engine = Engine()
    try:
        run = _wait_for_run(_with_signals(engine, work, quiet=quiet or as_json))
        while not as_json and run.status == "over_budget" and (entry := _money_question(engine, run)):
            if not _ask_and_answer(engine, entry):
                break
            run = _wait_for_run(_with_signals(engine, _resume_work(run.run), quiet=quiet))
        asked = engine.inbox.commands(run.run)
        trouble = engine.store_removed()
    finally:
        engine.close()
    with contextlib.suppress(BrokenPipeError):  # the exit code still reports the result
        click.echo(document(run).decode() if as_json else "\n".join(run_text.summary(run, asked)))
    if trouble:
        raise trouble
    return exit_code(run)


def _wait_for_run(work: Coroutine[Any, Any, Run]) -> Run:
    """Wait for a run; what fails only after it is over, when the event loop is closed, does not hide how it ended."""
    ended: list[Run] = []

    async def wait() -> None:
        ended.append(await work)

    try:
        asyncio.run(wait())
    except (RuntimeError, MemoryError, OSError):
        if not ended:
            raise
    return ended[0]


def _money_question(engine: Engine, run: Run) -> Entry | None:
    """Return the question about money that a run ended with, where someone is there to answer it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    money = (entry for entry in engine.inbox.entries() if entry.run == run.run and entry.about == "budget")
    return next((entry for entry in money if len(entry.choices) > 1), None)  # a ceiling leaves nothing to say


def _ask_and_answer(engine: Engine, entry: Entry) -> bool:
    """Ask on the terminal the questions of the inbox; return whether the run may continue."""
    click.echo(f"{entry.text}\n({entry.context})", err=True)
    ways = ", ".join(entry.choices)
    said = click.prompt(f"{ways}, or an amount in USD", default=entry.default, err=True)
    answered = asyncio.run(engine.inbox.answer(entry.id, said, current_user(), here=True))
    return answered.needs_resume


def _resume_work(run: str) -> Callable[[Engine, Plain], Awaitable[Run]]:
    async def work(engine: Engine, shown: Plain) -> Run:
        return await engine.resume(run, shown.hear)

    return work


def drive(work: Callable[[Engine, Plain], Awaitable[object]], *, quiet: bool) -> None:
    """Carry out `work` with progress on stderr; a signal stops the agents and keeps what they did."""
    engine = Engine()

    async def attend() -> None:
        with _obeying_signals(engine, quiet=quiet) as shown:
            await work(engine, shown)

    try:
        asyncio.run(attend())
    finally:
        engine.close()


async def _with_signals(engine: Engine, work: Callable[[Engine, Plain], Awaitable[Run]], *, quiet: bool) -> Run:
    with _obeying_signals(engine, quiet=quiet) as shown:
        return await engine.merges.add_git_state(await work(engine, shown))


@contextlib.contextmanager
def _obeying_signals(engine: Engine, *, quiet: bool) -> Generator[Plain]:
    loop = asyncio.get_running_loop()
    with display(engine, quiet=quiet) as shown:

        def stop(name: str) -> None:
            engine.active_runs.stop(f"stopped by {name}")  # before a word is said: the terminal may be gone
            shown.say("stopping: ending the agents, keeping their work")

        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(sent, stop, sent.name)
        yield shown


def exit_code(run: Run) -> int:
    if run.status in OPEN or run.merge.status == "conflict" or run.merge.others:
        return 3
    return EXIT_CODES.get(run.status, 1)


def display(engine: Engine | None = None, *, quiet: bool) -> Plain:
    """Choose by where the words go."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from corral.frontends.cli.terminal import Terminal  # noqa: PLC0415 -- slow to load, and rarely needed

        return Terminal(engine)
    return Plain(engine)
