"""What `schedule` and `trigger` share: a task that is asked for now and started later, from anywhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import structs

from corral.config import paths
from corral.engine.engine import Engine
from corral.frontends.cli.flow_file import flow_request
from corral.frontends.cli.run import asked, run, say
from corral.model import Request

C = TypeVar("C", bound=click.Command)
NOT_LATER = frozenset({"as_json", "quiet", "explain", "detach", "task"})  #: options of `run` that mean this very start
FEW = click.IntRange(1, 10_000)
FILE = re.compile(r"\b(scripted|replay):([^\s,*]+)")
FLOW = (
    click.Option(["--flow", "flow_file"], metavar="FILE", help="A flow file instead of a task, as it is now."),
    click.Option(["--input", "inputs"], multiple=True, metavar="NAME=VALUE", help="A value for an input of the flow."),
)


def like_run(command: C) -> C:
    """Give a command the options of `corral run` that say what is to be done."""
    command.params += [each for each in run.params if each.name not in NOT_LATER]
    command.params += FLOW
    return command


def standing(
    engine: Engine,
    task: str,
    *,
    flow_file: str | None,
    inputs: Sequence[str],
    **options: Any,  # noqa: ANN401 -- what Click hands over
) -> Request:
    """Return the request, checked as `corral run` would, with nothing in it that depends on where it was typed."""
    found = _rooted(asked(task, **options))
    if flow_file is not None:
        flow = flow_request(flow_file, inputs=inputs)
        found = structs.replace(found, flow=flow.flow, flow_file=flow.flow_file, inputs=flow.inputs)
    prepared = asyncio.run(engine.requests.prepare(found))
    for note in prepared.notes:
        say(note)
    return structs.replace(found, trust=False)  # said of the file as it is now, not of what it will be


def _rooted(found: Request) -> Request:
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


def what(request: Request) -> str:
    """Name in a line what a request asks for."""
    tasks = [each for each in (request.prompt, *request.tasks) if each]
    return "; ".join(tasks) or f"flow {Path(request.flow_file or '-').name}"


def warn_if_alone(engine: Engine) -> None:
    """Say so where no server is at work: nothing starts by itself then."""
    if engine.drives.server() is None:
        say("no server is at work here: nothing starts by itself until `corral serve`")
