"""`schedule`: tasks that a server starts by the clock."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.queue.rows import ScheduleShown, schedule_shown
from corral.frontends.cli import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run import left_alone, say
from corral.frontends.cli.task_options import FEW, like_run, standing, warn_if_alone, what
from corral.frontends.cli.user_name import who
from corral.model.errors import Conflicting
from corral.model.server import ScheduleRecord


@click.group()
def schedule() -> None:
    """Have a server start a task by the clock, within limits.

    Begin with `corral schedule add nightly @daily "Update the dependencies" --check "make test"`. It needs a server
    that is at work: `corral serve`.
    """


@schedule.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List schedules: when each comes next, and what came of the last time."""
    with engine() as opened:
        found = opened.automation.schedules()
        if as_json:
            click.echo(msgspec.json.encode([schedule_shown(*each) for each in found]).decode())
            return
        if not found:
            say('no schedule yet; make one: corral schedule add NAME "0 3 * * *" "what is to be done"')
            return
        rows = [
            (
                record.name,
                f"{record.cron} {record.zone}",
                _next(at),
                record.last or "-",
                what(record.request),
            )
            for record, at in found
        ]
        click.echo("\n".join(text.table(("SCHEDULE", "WHEN", "NEXT", "LAST", "TASK"), rows)))
        warn_if_alone(opened)


@like_run
@schedule.command("add")
@click.argument("name")
@click.argument("cron")
@click.argument("task", required=False, default="")
@click.option("--zone", default="UTC", metavar="ZONE", help="The clock that counts, as Europe/Berlin.  [UTC]")
@click.option("--most-open", type=FEW, default=1, help="It does not start while so many of its runs go on.  [1]")
@click.option("--per-day", type=FEW, default=24, help="How many runs it may start within a day.  [24]")
@click.option("--replace", is_flag=True, help="Instead of the one that is called so.")
@json_option
def add(  # noqa: PLR0913 -- what Click hands over
    name: str,
    cron: str,
    task: str,
    *,
    zone: str,
    most_open: int,
    per_day: int,
    replace: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    """Start TASK whenever the clock fits CRON: "0 3 * * mon-fri", @hourly, @daily, @weekly, @monthly.

    What is to be done is said as to `corral run`, and checked now. TASK `-` is read from stdin.
    """
    with engine() as opened:
        known = {record.name for record, _ in opened.automation.schedules()}
        if name in known and not replace:
            raise Conflicting(f"a schedule is called `{name}` already", hint="another name, or --replace")
        record = ScheduleRecord(
            name=name,
            cron=cron,
            zone=zone,
            request=standing(opened, task, **options),
            by=who(),
            most_open=most_open,
            per_day=per_day,
        )
        at = opened.automation.put_schedule(record)
        _show(opened, name, at, as_json=as_json)
        warn_if_alone(opened)


@schedule.command("rm")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a schedule; what it started stays."""
    with engine() as opened:
        opened.automation.drop_schedule(name)
    click.echo(f"removed: {name}")


@schedule.command("pause")
@click.argument("name")
@json_option
def pause(name: str, *, as_json: bool) -> None:
    """Let a schedule rest until `corral schedule resume`."""
    with engine() as opened:
        _show(opened, name, opened.automation.enable_schedule(name, enabled=False), as_json=as_json)


@schedule.command("resume")
@click.argument("name")
@json_option
def resume(name: str, *, as_json: bool) -> None:
    """Go on with a schedule that rests; what it missed is not made up for."""
    with engine() as opened:
        _show(opened, name, opened.automation.enable_schedule(name, enabled=True), as_json=as_json)
        warn_if_alone(opened)


@schedule.command("run")
@click.argument("name")
@json_option
def run(name: str, *, as_json: bool) -> None:
    """Start what a schedule starts, now; it counts among its runs."""
    with engine() as opened:
        left_alone(opened, asyncio.run(opened.automation.start_schedule(name, lambda _: None, say)), as_json=as_json)


def _show(opened: Engine, name: str, at: float | None, *, as_json: bool) -> None:
    shown: ScheduleShown = schedule_shown(opened.automation.schedule(name), at)
    if as_json:
        click.echo(msgspec.json.encode(shown).decode())
    else:
        click.echo(f"{name}: {'next at ' if at else ''}{_next(at)}")


def _next(at: float | None) -> str:
    return "paused" if at is None else text.moment(at)
