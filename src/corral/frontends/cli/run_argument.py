"""The argument RUN: an id, the beginning of one, `@last`, or nothing at all for a run of this repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

from corral.engine.engine import Engine
from corral.model import OPEN
from corral.model.errors import BadRequest, NotFound
from corral.model.server import RunSummary

WHOLE_ID = re.compile(r"0[0-9a-z]{11}")  #: what can only be meant as the id of a run
MOST_NAMED = 8  #: choices that an error lists

Choose = Callable[[Engine], str]


@contextmanager
def engine() -> Generator[Engine]:
    opened = Engine()
    try:
        yield opened
    finally:
        opened.close()


def list_run_ids(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Complete the id of a run."""
    with engine() as opened:
        return [line.run for line in opened.history.runs(50) if line.run.startswith(start)]


class RunArgument(click.Argument):
    """A run that may be left out; what is no run in its place is the next argument."""

    def __init__(self, names: Sequence[str], *, choose: Choose, **options: Any) -> None:  # noqa: ANN401
        super().__init__(names, **options)
        self._choose = choose

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if not ctx.resilient_parsing:
            self._fill(ctx, cast("dict[str, Any]", opts))
        return super().handle_parse_result(ctx, opts, args)

    def _fill(self, ctx: click.Context, opts: dict[str, Any]) -> None:
        """Put the arguments where they belong; the parser has filled them from the left."""
        arguments = [each for each in ctx.command.params if isinstance(each, click.Argument)]
        names = [each.name for each in arguments]
        typed = [value for name in names if isinstance(value := opts.get(name), str)]
        if len(typed) == len(names) or len(typed) < sum(each.required for each in arguments):
            return  # none is left out, or one that must not be: then Click refuses it
        with engine() as opened:
            rest = typed[1:]
            if not typed:
                run = self._choose(opened)
            elif (found := _find(opened, typed[0])) is not None:
                run = found
            elif "attempt" in names and (found := _find(opened, typed[0].rpartition("-")[0])) is not None:
                run, rest = found, typed
            else:
                run, rest = self._choose(opened), typed
        opts.update(zip(names, (run, *rest), strict=False))


def _find(opened: Engine, name: str) -> str | None:
    """Return the run of that name; None where it can be no run's."""
    try:
        return opened.find(name)
    except NotFound:
        if name == "@last" or WHOLE_ID.fullmatch(name):
            raise
        return None


def newest_here(opened: Engine) -> str:
    """Return the newest run of this repository; outside of one, the newest of all."""
    here = Path.cwd()
    if found := opened.history.runs_of(here, most=1):
        return found[0].run
    if opened.history.in_repository(here):
        raise NotFound("no run of this repository yet", hint='start one: corral run "..."; others: corral ls')
    return opened.find("@last")


def at_work_here(opened: Engine) -> str:
    """Return the only run of this repository that is at work, or else the only one that is not over."""
    here = Path.cwd()
    found = opened.history.runs_of(here, tuple(OPEN))
    if not found and not opened.history.in_repository(here):
        found = [line for line in opened.history.runs(50) if line.status in OPEN]
    chosen = [line for line in found if line.status == "running" and not line.orphaned] or found
    if len(chosen) == 1:
        return chosen[0].run
    if not chosen:
        raise BadRequest("no run is at work here", hint="see `corral ls`, and name one")
    raise BadRequest(f"{len(chosen)} runs are at work here", hint=f"name one: {_choices(chosen)}")


def _choices(lines: list[RunSummary]) -> str:
    named = [f"{line.run} ({line.title[:40]})" for line in lines[:MOST_NAMED]]
    return ", ".join(named) + (" ..." if len(lines) > MOST_NAMED else "")


run_argument = click.argument("run", cls=RunArgument, choose=newest_here, required=False, shell_complete=list_run_ids)
active_run_argument = click.argument(
    "run", cls=RunArgument, choose=at_work_here, required=False, shell_complete=list_run_ids
)
named_run_argument = click.argument("run", shell_complete=list_run_ids)
