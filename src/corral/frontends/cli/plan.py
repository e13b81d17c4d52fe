"""`plan`: an agent writes a flow for a task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.planner import MOST_NODES, NODES, PlannedFlow, PlanOrder, shown_plan
from corral.frontends import text as words
from corral.frontends.cli.foreground import drive, exit_code, in_foreground
from corral.frontends.cli.look import json_option
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.run import submit
from corral.model import Run
from corral.model.errors import BadRequest
from corral.model.flow import Grade, Parallelism


@click.command()
@click.argument("task")
@click.option("--agent", metavar="NAME[:MODEL]", help="Agent that plans, and that works on nodes without one.")
@click.option("--most", type=click.IntRange(1, MOST_NODES), default=NODES, show_default=True, help="Most nodes.")
@click.option(
    "--parallelism",
    type=click.Choice(get_args(Parallelism)),
    default="balanced",
    show_default=True,
    help="How much runs side by side.",
)
@click.option("--complexity", type=click.Choice(get_args(Grade)), help="How much the task asks for, for the planner.")
@click.option("--role", "roles", multiple=True, metavar="NAME", help="Role that the plan is to use; repeatable.")
@click.option(
    "--budget", "budget_usd", type=click.FloatRange(0, min_open=True), metavar="USD", help="Budget of the flow."
)
@click.option("--out", metavar="FILE", help="File to write the flow to.")
@click.option("--run", "start", is_flag=True, help="Run the plan, after you approved it in the inbox.")
@click.option("--yes", is_flag=True, help="With --run: approve it now.")
@click.option("--repo", default=".", metavar="DIR", help="Repository, or a folder in it.  [default: .]")
@click.option("--trust", is_flag=True, help="Trust this repository's corral.toml as it is now.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
@json_option
def plan(task: str, *, out: str | None, start: bool, yes: bool, quiet: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401
    """Have an agent write a flow for TASK: it studies the repository and changes nothing.

    Corral checks the flow and sends mistakes back, at most twice. Prints the flow file.
    """
    if yes and not start:
        raise BadRequest("--yes approves a plan that is run", hint="add --run")
    if out and os.path.lexists(out):
        raise BadRequest(f"--out {out}: the file exists already", hint="name a new one")
    order = PlanOrder(task=task, **options)
    found: list[PlannedFlow] = []

    async def work(engine: Engine, shown: Plain) -> None:
        found.append(await engine.planner.plan(order, shown.hear, shown.say))

    drive(work, quiet=quiet or as_json)
    (planned,) = found
    if out:
        _write(Path(out), planned.text)
    if not as_json:
        _explain(planned)
        click.echo(planned.text, nl=False)
    if not start:
        if as_json:
            click.echo(msgspec.json.encode(shown_plan(planned)).decode())
        return 0
    return _run(planned, order, yes=yes, quiet=quiet, as_json=as_json)


def _run(planned: PlannedFlow, order: PlanOrder, *, yes: bool, quiet: bool, as_json: bool) -> int:
    async def execute(engine: Engine, shown: Plain) -> Run:
        name = await submit(engine, engine.planner.request(planned, order, yes=yes), shown)
        shown.say(f"run {name}: the plan")
        return await engine.execute(name, shown.hear, patient=shown.patient)

    if not as_json:
        return in_foreground(execute, quiet=quiet, as_json=False)
    ended: list[Run] = []

    async def attend(engine: Engine, shown: Plain) -> None:
        ended.append(await execute(engine, shown))

    drive(attend, quiet=True)
    document = {**shown_plan(planned), "run": msgspec.to_builtins(ended[0])}
    click.echo(msgspec.json.encode(document).decode())
    return exit_code(ended[0])


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise BadRequest(f"--out {file}: {error.strerror}", hint="name a new file in a folder that is there") from error


def _explain(planned: PlannedFlow) -> None:
    """Say on stderr what the plan is; the planner's own words are shown as text, whatever they are."""
    lines = [*planned.graph, ""]
    lines += [f"{name}: {words.printable(' '.join(text.split()))}" for name, text in planned.reasons.items()]
    lines += [f"warning: {words.printable(' '.join(each.split()))}" for each in planned.warnings]
    if planned.confidence is not None:
        lines.append(f"confidence of the planner: {planned.confidence:.0%}")
    lines += planned.estimate.lines() if planned.estimate else []
    click.echo("\n".join(lines), err=True)
