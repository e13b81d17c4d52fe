"""`schedule`: tasks that a server starts by the clock."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.queue.rows import ScheduleRow, schedule_row
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run import leave_to_background, say
from corral.frontends.cli.task_options import FEW, add_switches, like_run, stored_request, warn_if_alone, what
from corral.frontends.user_name import current_user
from corral.model.errors import Conflicting
from corral.model.server import ScheduleRecord


@click.group()
def schedule() -> None:
    """Start tasks on a schedule, by a server.

    Example: `corral schedule add nightly @daily "Update the dependencies" --check "make test"`. It needs a running
    server: `corral serve`.
    """


@schedule.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List schedules with their next time and last result."""
    with engine() as opened:
        found = opened.automation.all()
        if as_json:
            click.echo(msgspec.json.encode([schedule_row(*each) for each in found]).decode())
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
@click.argument("called", metavar="NAME")
@click.argument("cron")
@click.argument("task", required=False, default="")
@click.option("--zone", default="UTC", metavar="ZONE", help="Time zone, such as Europe/Berlin.  [default: UTC]")
@click.option("--most-open", type=FEW, default=1, help="Maximum number of its open runs.  [default: 1]")
@click.option("--per-day", type=FEW, default=24, help="Maximum runs per day.  [default: 24]")
@click.option("--replace", is_flag=True, help="Replace an existing schedule of this name.")
@json_option
def add(  # noqa: PLR0913 -- what Click hands over
    called: str,
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
    """Start TASK whenever the clock matches CRON: "0 3 * * mon-fri", @hourly, @daily, @weekly, @monthly.

    The options of the task are those of `corral run`; they are checked now. TASK `-` is read from stdin.
    """
    with engine() as opened:
        known = {record.name for record, _ in opened.automation.all()}
        if called in known and not replace:
            raise Conflicting(f"a schedule is called `{called}` already", hint="another name, or --replace")
        record = ScheduleRecord(
            name=called,
            cron=cron,
            zone=zone,
            request=stored_request(opened, task, **options),
            by=current_user(),
            most_open=most_open,
            per_day=per_day,
        )
        asyncio.run(opened.automation.put(record))
        row, words = _state(opened, called)
        click.echo(msgspec.json.encode(row).decode() if as_json else f"{called}: {words}")
        warn_if_alone(opened)


@schedule.command("run")
@click.argument("name")
@json_option
def run(name: str, *, as_json: bool) -> None:
    """Start the task of a schedule now; it counts among its runs."""
    with engine() as opened:
        leave_to_background(opened, asyncio.run(opened.automation.start(name, lambda _: None, say)), as_json=as_json)


def _state(opened: Engine, name: str) -> tuple[ScheduleRow, str]:
    record, at = next(each for each in opened.automation.all() if each[0].name == name)
    return schedule_row(record, at), f"{'next at ' if at else ''}{_next(at)}"


def _next(at: float | None) -> str:
    return "paused" if at is None else text.local_time(at)


add_switches(
    schedule,
    lambda opened: opened.automation,
    _state,
    rests="Pause a schedule until `corral schedule resume`.",
    returns="Resume a paused schedule; what it missed is not made up for.",
)
