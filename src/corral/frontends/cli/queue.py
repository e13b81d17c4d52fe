"""`queue`: what waits to be taken up, and in which order."""

from __future__ import annotations

import click
import msgspec

from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run_argument import named_run_argument
from corral.model.server import QueueState


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def queue(context: click.Context, *, as_json: bool) -> None:
    """Show the queued runs in their order."""
    if context.invoked_subcommand is None:
        with engine() as opened:
            _show(opened.queue.state(), as_json=as_json)


@queue.command("hold")
def hold() -> None:
    """Stop starting queued runs; active runs continue."""
    with engine() as opened:
        opened.queue.hold(held=True)
    click.echo("held: nothing is taken up until `corral queue go`")


@queue.command("go")
def go() -> None:
    """Start queued runs again."""
    with engine() as opened:
        opened.queue.hold(held=False)
    click.echo("the queue continues")


@queue.command("at-once")
@click.argument("number", type=click.IntRange(1, 1000))
def at_once(number: int) -> None:
    """Set the maximum NUMBER of runs at once."""
    with engine() as opened:
        opened.queue.set_concurrency(number)
    click.echo(f"{number} at once")


@queue.command("move")
@named_run_argument
@click.option("--priority", type=click.IntRange(-1000, 1000), help="Priority; higher is sooner.")
@click.option("--before", metavar="RUN", help="Place it just before this run.")
@click.option("--first", is_flag=True, help="Place it before all others of its priority.")
@json_option
def move(run: str, priority: int | None, before: str | None, *, first: bool, as_json: bool) -> None:
    """Change the priority or place of RUN."""
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
        rows = [(each.run, str(each.priority), text.age(each.at), each.by, each.waits) for each in state.waiting]
        click.echo("\n".join(text.table(("RUN", "PRIORITY", "AGE", "BY", ""), rows)))
    if state.held:
        click.echo("the queue is held: corral queue go", err=True)
