"""`corral flow`: check, draw, dry-run, run and begin flow files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.planning.build_flow import template, template_names
from corral.engine.planning.submit import RunSubmission
from corral.engine.views import flow_pictures
from corral.frontends.cli.flow_file import flow_request, stub_text
from corral.frontends.cli.foreground import in_foreground
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.run import run_detached, submit
from corral.frontends.text import table
from corral.model import Request, Run
from corral.model.errors import BadFlow, BadRequest
from corral.model.run import read_labels

F = TypeVar("F", bound=Callable[..., Any])
STUB_HELP = "With --dry-run: `success`, `failure`, a gate's `no`, or an output as JSON.  [default: success]"


@click.group()
def flow() -> None:
    """Check, draw, run and create flow files: several tasks that depend on each other.

    Start with `corral flow new feature`, then `corral flow graph FILE` and `corral flow run FILE`.
    """


def _inputs(command: F) -> F:
    options = (
        click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="Value of an input."),
        click.option("--repo", default=".", metavar="DIR", help="Repository, or a plain folder.  [default: .]"),
        click.option("--agent", "agents", multiple=True, metavar="NAME[:MODEL]", help="Agent for nodes without one."),
        click.argument("file"),
    )
    for option in options:
        command = option(command)
    return command


@flow.command()
@_inputs
@json_option
def check(file: str, *, as_json: bool, **options: Any) -> int:  # noqa: ANN401 -- what Click hands over
    """Check FILE: report each mistake with its line and column, exit code 2.

    They are on stderr, a line each; with --json as a list on stdout. Without any --input, inputs may have no value.
    """
    draft = not options["inputs"]  # who gives some means all of them
    try:
        found = _prepare(flow_request(file, draft=draft, **options)).plan.flow
    except BadFlow as bad:
        if not as_json:
            raise
        click.echo(msgspec.json.encode(bad.mistakes).decode())
        return bad.exit_code
    if as_json:
        click.echo(msgspec.json.encode({"name": found.name, "nodes": [node.id for node in found.nodes]}).decode())
    else:
        click.echo(f"{file} is right: {len(found.nodes)} nodes")
    return 0


@flow.command()
@_inputs
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "svg", "json"]), default="text", help="[text]")
@json_option
def graph(file: str, *, form: str, as_json: bool, **options: Any) -> int:  # noqa: ANN401
    """Draw the graph of FILE."""
    found = _prepare(flow_request(file, draft=True, **options)).plan.flow
    forms: dict[str, Callable[[], str]] = {
        "text": lambda: "\n".join(flow_pictures.text(found)),
        "mermaid": lambda: flow_pictures.mermaid(found),
        "svg": lambda: flow_pictures.svg(found),
        "json": lambda: msgspec.json.format(msgspec.json.encode(flow_pictures.outline(found)), indent=2).decode(),
    }
    click.echo(forms["json" if as_json else form]())
    return 0


@flow.command("run")
@_inputs
@click.option("--dry-run", "dry", is_flag=True, help="Show what would run, in which order, and the approximate cost.")
@click.option("--stub", "stubs", multiple=True, metavar="NODE=OUTCOME", help=STUB_HELP)
@click.option(
    "--stubs", "stub_file", metavar="FILE", help="With --dry-run: file with outcomes, one `NODE: OUTCOME` per line."
)
@click.option("--base", metavar="REF", help="Branch, tag or commit to start from.  [default: HEAD]")
@click.option("--machine", metavar="NAME|any", help="Machine of nodes that name none, of [machines].  [default: here]")
@click.option(
    "--held-out", metavar="DIR", help="Folder of checks that no agent sees: added to the work for another check."
)
@click.option("--budget", "budget_usd", type=float, metavar="USD", help="Budget of the whole flow.")
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, help="Priority in the queue; higher is sooner."
)
@click.option("--name", metavar="TEXT", help="Name of the run; `corral rename` changes it.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label for `corral ls --label`; repeatable."
)
@click.option("--yes", is_flag=True, help="Exceed budgets of days and months without asking, up to the ceiling.")
@click.option("--trust", is_flag=True, help="Trust this repository's corral.toml as it is now.")
@click.option("--allow-unsandboxed", "unsandboxed", is_flag=True, help="Start even without a working sandbox.")
@click.option("--detach", is_flag=True, help="Queue the run and return; a server or a new process runs it.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the result.")
@json_option
def run_(file: str, *, dry: bool, detach: bool, quiet: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401
    """Run FILE. Stop it from any terminal; `corral resume` continues it later."""
    stubs, stub_file = options.pop("stubs"), options.pop("stub_file")
    if (stubs or stub_file) and not dry:
        raise BadRequest("--stub and --stubs are for a dry run", hint="add --dry-run")
    request = flow_request(file, labels=read_labels(options.pop("labels")), **options)
    if dry:
        return _dry_run(request, stubs, stub_text(stub_file) if stub_file else "", as_json=as_json)
    if detach:
        return run_detached(request, as_json=as_json)

    async def work(engine: Engine, shown: Plain) -> Run:
        name = await submit(engine, request, shown)
        found = engine.history.flow_of(name)
        shown.draw(found)
        if found.why:
            shown.say(found.why)
        shown.say(f"run {name}: {found.name}, {len(found.nodes)} nodes")
        return await engine.execute(name, shown.hear, patient=shown.patient)

    return in_foreground(work, quiet=quiet, as_json=as_json)


def _templates(ran: dict[str, tuple[int, int]], *, as_json: bool) -> str:
    """List the templates, with the results of earlier runs of flows with these names."""
    rows = [(each, *ran.get(each, (0, 0)), template(each).partition("\n")[0].lstrip("# ")) for each in template_names()]
    if as_json:
        keys = ("template", "runs", "done", "what")
        return msgspec.json.encode([dict(zip(keys, row, strict=True)) for row in rows]).decode()
    shown = [(name, f"{done}/{count}" if count else "-", what) for name, count, done, what in rows]
    return "\n".join(table(("template", "done", "what it does"), shown))


@flow.command()
@click.argument("name", required=False)
@click.argument("file", required=False)
@json_option
def new(name: str | None, file: str | None, *, as_json: bool) -> int:
    """Create a flow file from a template: NAME.yaml, or FILE. Without a name, list the templates."""
    if name is None:
        with engine() as opened:
            click.echo(_templates(opened.history.flow_records(), as_json=as_json))
        return 0
    text = template(name)
    target = Path(file or f"{name}.yaml")
    try:
        with target.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise BadRequest(f"{target} is there already", hint=f"another name: corral flow new {name} FILE") from None
    except OSError as error:
        raise BadRequest(f"{target}: {error.strerror}", hint="name a file in a folder that exists") from error
    if as_json:
        click.echo(msgspec.json.encode({"template": name, "file": str(target)}).decode())
        return 0
    click.echo(f"{target}: look with `corral flow graph {target}`, run with `corral flow run {target}`")
    return 0


@flow.command()
@click.option("--json", "as_json", is_flag=True, help="Print on one line.")
def schema(*, as_json: bool) -> int:
    """Print the JSON Schema of flow files, for completion and checks in editors."""
    text = msgspec.json.encode(flow_pictures.schema())
    click.echo((text if as_json else msgspec.json.format(text, indent=2)).decode())
    return 0


def _prepare(request: Request) -> RunSubmission:
    engine = Engine()
    try:
        return asyncio.run(engine.requests.prepare(request))
    finally:
        engine.close()


def _dry_run(request: Request, stubs: Sequence[str], stub_file: str, *, as_json: bool) -> int:
    engine = Engine()
    try:
        plan = asyncio.run(engine.requests.prepare(request)).plan
        guess = engine.money.estimate(plan, stubs, stub_file)
    finally:
        engine.close()
    if as_json:
        click.echo(msgspec.json.encode({"flow": flow_pictures.outline(plan.flow), "estimate": guess}).decode())
        return 0
    click.echo("\n".join(flow_pictures.text(plan.flow)))
    click.echo("\n".join(guess.lines()))
    click.echo("nothing was started")
    return 0
