"""`watch`, `who`: see from any terminal what agents are doing now, whichever process drives them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path, PurePath

import click
import msgspec

from corral import amounts
from corral.engine.engine import Engine
from corral.engine.views.presence import Presence, WorkingAttempt
from corral.frontends import run_text
from corral.frontends import text as words
from corral.frontends.cli.foreground import display, exit_code
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.model import Run, document
from corral.model.errors import BadRequest
from corral.model.events import RunEvent, StoredEvent

FILES_SHOWN = 20


@click.command()
@run_argument
@json_option
def watch(run: str, *, as_json: bool) -> int:
    """Watch RUN until it ends: its graph, its agents, their work, time and cost.

    On a terminal it shows a live view, elsewhere a few plain lines, both on stderr; then the result. The exit code
    is that of the run. Ctrl-C stops watching, not the run.
    """
    gc.enable()  # it may continue for hours
    with engine() as opened:
        name = opened.find(run)
        _follow(opened, name, quiet=as_json)
        found, asked = opened.show(name), opened.inbox.commands(name)
    click.echo(document(found).decode() if as_json else "\n".join(run_text.summary(found, asked)))
    return exit_code(found)


def _follow(opened: Engine, name: str, *, quiet: bool) -> None:
    with display(opened, quiet=quiet) as shown:
        shown.began = _start_time(opened.show(name))
        last = 0
        for stored in opened.history.events(name):
            shown.recall(_run_event(name, stored), stored.at)
            last = stored.seq
        shown.settle(opened.history.node_states(name))
        for stored in opened.history.follow(name, last):
            shown.hear(_run_event(name, stored))


def _run_event(run: str, stored: StoredEvent) -> RunEvent:
    return RunEvent(run, stored.node, stored.attempt, stored.event())


def _start_time(run: Run) -> float:
    return datetime.fromisoformat(run.started).timestamp()


@click.command()
@click.argument("run", required=False)
@click.option("--repo", default=".", metavar="DIR", help="Without RUN: all runs of this repository.  [default: .]")
@click.option(
    "--file", "asked", multiple=True, metavar="PATH", help="Also tell which agents may write this file; repeatable."
)
@json_option
def who(run: str | None, repo: str, *, asked: tuple[str, ...], as_json: bool) -> None:
    """Show which agents work on which files: agents of RUN, or of all runs of the repository.

    Files come from the agents' reports and their last snapshot. A file that several agents change in their
    workspaces is marked: it will need a merge.
    """
    with engine() as opened:
        found = asyncio.run(opened.history.at_work(run, Path(repo), list(map(_in_repository, asked))))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found.attempts:
        click.echo("nobody is at work here", err=True)
    else:
        click.echo("\n".join([*_lines(found), *_writers(found, asked)]))


def _in_repository(path: str) -> str:
    """Return a file as scopes name it: relative, and inside."""
    if path.startswith("/") or ".." in PurePath(path).parts or not PurePath(path).parts:
        raise BadRequest(
            f"--file {path}: not a path in the repository", hint="name it from the repository's top: src/a.py"
        )
    return str(PurePath(path))


def _writers(found: Presence, asked: Sequence[str]) -> list[str]:
    """Say of each file that was asked about who may write it."""
    lines: list[str] = []
    for path in map(_in_repository, asked):
        able = [f"{each.agent} ({each.attempt})" for each in found.attempts if path in each.writable]
        lines.append(f"{words.printable(path)}: {', '.join(able) or 'nobody'} may write it")
    return lines


def _lines(found: Presence) -> list[str]:
    shared = {each.path: each.attempts for each in found.overlaps}
    rows: list[Sequence[str]] = []
    for hand in found.attempts:
        state = hand.state if hand.state != "stale" else f"silent for {amounts.seconds(hand.silent_seconds)}"
        head = (hand.attempt, hand.node, hand.agent, state, amounts.seconds(hand.seconds))
        files = _files(hand, shared) or [f"({hand.waits or 'no file yet'})"]
        rows += [(*(head if not place else ("",) * len(head)), text) for place, text in enumerate(files)]
    return words.table(("ATTEMPT", "NODE", "AGENT", "STATE", "TIME", "FILE"), rows)


def _files(hand: WorkingAttempt, shared: dict[str, tuple[str, ...]]) -> list[str]:
    """Name its files, those first that others are at work on too."""
    both = [path for path in hand.files if path in shared]
    alone = [path for path in hand.files if path not in shared]
    named = [
        f"{words.printable(path)}  ! also {', '.join(each for each in shared[path] if each != hand.attempt)}"
        for path in both
    ]
    rest = [*named, *map(words.printable, alone)]
    more = len(rest) - FILES_SHOWN
    return rest if more <= 0 else [*rest[:FILES_SHOWN], f"and {more} more"]
