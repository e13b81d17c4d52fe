"""What `schedule` and `trigger` share: a task that is asked for now and started later, from anywhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec
from msgspec import Struct, structs

from corral.config import paths
from corral.engine.engine import Engine
from corral.frontends.cli.flow_file import flow_request
from corral.frontends.cli.look import engine
from corral.frontends.cli.run import build_request, run, say
from corral.model import Request

C = TypeVar("C", bound=click.Command)
NOT_LATER = frozenset({"as_json", "quiet", "explain", "detach", "task"})  #: options of `run` that mean this very start
FEW = click.IntRange(1, 10_000)
FILE = re.compile(r"\b(scripted|replay):([^\s,*]+)")
FLOW = (
    click.Option(["--flow", "flow_file"], metavar="FILE", help="A flow file instead of a task, as it is now."),
    click.Option(["--input", "inputs"], multiple=True, metavar="NAME=VALUE", help="A value for an input of the flow."),
)


class AutomationList(Protocol):
    """What schedules and triggers have in common."""

    def drop(self, name: str) -> None: ...

    async def enable(self, name: str, *, enabled: bool) -> None: ...


Room = Callable[[Engine], AutomationList]
State = Callable[[Engine, str], tuple[Struct, str]]  #: its row, and its state in words


def like_run(command: C) -> C:
    """Give a command the options of `corral run` that say what is to be done."""
    command.params += [each for each in run.params if each.name not in NOT_LATER]
    command.params += FLOW
    return command


def stored_request(
    engine: Engine,
    task: str,
    *,
    flow_file: str | None,
    inputs: Sequence[str],
    **options: Any,  # noqa: ANN401 -- what Click hands over
) -> Request:
    """Return the request, checked as `corral run` would, with nothing in it that depends on where it was typed."""
    found = _with_absolute_paths(build_request(task, **options))
    if flow_file is not None:
        flow = flow_request(flow_file, inputs=inputs)
        found = structs.replace(found, flow=flow.flow, flow_file=flow.flow_file, inputs=flow.inputs)
    prepared = asyncio.run(engine.requests.prepare(found))
    for note in prepared.notes:
        say(note)
    return structs.replace(found, trust=False)  # said of the file as it is now, not of what it will be


def _with_absolute_paths(found: Request) -> Request:
    named = found.output or ""
    is_file = bool(named) and not named.lstrip().startswith(("{", "[", '"')) and paths.is_file(Path(named))
    return structs.replace(
        found,
        repo=str(Path(found.repo).expanduser().resolve()),
        scope=found.scope and str(Path(found.scope).expanduser().resolve()),
        output=str(Path(named).resolve()) if is_file else found.output,
        agents=tuple(FILE.sub(_whole, each) for each in found.agents),
        fallback=tuple(FILE.sub(_whole, each) for each in found.fallback),
    )


def _whole(found: re.Match[str]) -> str:
    return f"{found[1]}:{Path(found[2]).absolute()}"


def add_switches(group: click.Group, room: Room, state: State, *, rests: str, returns: str) -> None:
    """Give `schedule` or `trigger` the commands that both have: rm, pause and resume."""

    def remove(name: str) -> None:
        with engine() as opened:
            room(opened).drop(name)
        click.echo(f"removed: {name}")

    def switch(name: str, *, enabled: bool, as_json: bool) -> None:
        with engine() as opened:
            asyncio.run(room(opened).enable(name, enabled=enabled))
            row, words = state(opened, name)
            click.echo(msgspec.json.encode(row).decode() if as_json else f"{name}: {words}")
            if enabled:
                warn_if_alone(opened)

    named = click.Argument(["name"])
    json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
    group.add_command(
        click.Command("rm", callback=remove, params=[named], help=f"Remove a {group.name}; what it started stays.")
    )
    for verb, enabled, words in (("pause", False, rests), ("resume", True, returns)):
        callback = partial(switch, enabled=enabled)
        group.add_command(click.Command(verb, callback=callback, params=[named, json], help=words))


def what(request: Request) -> str:
    """Name in a line what a request asks for."""
    tasks = [each for each in (request.prompt, *request.tasks) if each]
    return "; ".join(tasks) or f"flow {Path(request.flow_file or '-').name}"


def warn_if_alone(engine: Engine) -> None:
    """Say so where no server is at work: nothing starts by itself then."""
    if engine.active_runs.server() is None:
        say("no server is at work here: nothing starts by itself until `corral serve`")
