"""`queue`: what waits to be taken up, and in which order."""

from __future__ import annotations

import click
import msgspec

from corral.frontends.cli import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run_argument import named_run_argument
from corral.model.server import QueueState


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def queue(context: click.Context, *, as_json: bool) -> None:
    """Show what waits to be taken up by a server, in that order."""
    if context.invoked_subcommand is None:
        with engine() as opened:
            _show(opened.queue.state(), as_json=as_json)


@queue.command("hold")
def hold() -> None:
    """Take nothing up any more; what goes on goes on."""
    with engine() as opened:
        opened.queue.hold(held=True)
    click.echo("held: nothing is taken up until `corral queue go`")


@queue.command("go")
def go() -> None:
    """Take up what waits."""
    with engine() as opened:
        opened.queue.hold(held=False)
    click.echo("the queue goes on")


@queue.command("at-once")
@click.argument("number", type=click.IntRange(1, 1000))
def at_once(number: int) -> None:
    """Let at most NUMBER runs go on at once."""
    with engine() as opened:
        opened.queue.set_concurrency(number)
    click.echo(f"{number} at once")


@queue.command("move")
@named_run_argument
@click.option("--priority", type=click.IntRange(-1000, 1000), help="More is sooner.")
@click.option("--before", metavar="RUN", help="Just before this one.")
@click.option("--first", is_flag=True, help="Before all others of its priority.")
@json_option
def move(run: str, priority: int | None, before: str | None, *, first: bool, as_json: bool) -> None:
    """Give RUN another priority or place."""
    with engine() as opened:
        opened.queue.move(run, priority=priority, before=before, first=first)
        _show(opened.queue.state(), as_json=as_json)


def _show(state: QueueState, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(state).decode())
        return
    if not state.waiting:
        click.echo("nothing waits in the queue", err=True)
    else:
        rows = [(each.run, str(each.priority), text.ago(each.at), each.by) for each in state.waiting]
        click.echo("\n".join(text.table(("RUN", "PRIORITY", "AGE", "BY"), rows)))
    if state.held:
        click.echo("the queue is held: corral queue go", err=True)
