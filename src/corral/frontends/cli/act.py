"""`stop`, `resume`, `steer`, `condense`, `trust`: act on runs, from any process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from corral.config.paths import REPOSITORY_FILE
from corral.engine.engine import Engine
from corral.frontends import run_text
from corral.frontends.cli.ask_trust import ask_for_trust
from corral.frontends.cli.flow_file import flow_request
from corral.frontends.cli.foreground import in_foreground
from corral.frontends.cli.look import json_option
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.run_argument import active_run_argument, named_run_argument, run_argument
from corral.frontends.user_name import current_user
from corral.model import OPEN, Run, document
from corral.model.errors import BadRequest

force_option = click.option(
    "--force", is_flag=True, help="Take over the run at once from a process that does not answer. [default: after 15 s]"
)


@click.command()
@active_run_argument
@force_option
@json_option
def stop(run: str, *, force: bool, as_json: bool) -> int:
    """Stop a run of any process; keep partial work on its branch.

    A process that does not answer loses the run when its lease ends (15 s); then this command stops the run.
    """
    engine = Engine()
    try:
        before = engine.show(run)
        if before.status not in OPEN:
            click.echo(f"run {before.run} is over already: {before.status}", err=True)
        after = asyncio.run(engine.stop(before.run, current_user(), _say, force=force))
        asked = engine.inbox.commands(after.run)
    finally:
        engine.close()
    click.echo(document(after).decode() if as_json else "\n".join(run_text.summary(after, asked)))
    return 0


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command()
@named_run_argument
@click.argument("name")
@json_option
def rename(run: str, name: str, *, as_json: bool) -> None:
    """Give RUN the name NAME, shown by `corral ls` and the page; an empty NAME removes it."""
    engine = Engine()
    try:
        found = engine.show(engine.control.rename(run, name, current_user()))
    finally:
        engine.close()
    words = f"run {found.run} is named {found.name}" if found.name else f"run {found.run} has no name"
    click.echo(document(found).decode() if as_json else words)


@click.command()
@active_run_argument
@click.argument("text")
@json_option
def steer(run: str, text: str, *, as_json: bool) -> None:
    """Send a message to the agents of RUN while they work, such as "also update the docs", and report its delivery."""
    engine = Engine()
    try:
        name = engine.show(run).run
        answer = asyncio.run(engine.control.steer(name, text, current_user()))
    finally:
        engine.close()
    click.echo(msgspec.json.encode({"run": name, "answer": answer}).decode() if as_json else answer)


@click.command()
@named_run_argument
@json_option
def condense(run: str, *, as_json: bool) -> None:
    """Continue the agents of RUN in new sessions, from summaries of their work.

    Corral does this automatically when a session has filled 80 % of its model's window ([condense] at).
    """
    engine = Engine()
    try:
        name = engine.show(run).run
        answer = asyncio.run(engine.control.condense(name, current_user()))
    finally:
        engine.close()
    click.echo(msgspec.json.encode({"run": name, "answer": answer}).decode() if as_json else answer)


@click.command()
@run_argument
@click.option(
    "--from", "from_", metavar="NODE", help="Repeat this node and all nodes after it; keep the nodes before it."
)
@click.option("--flow", "file", metavar="FILE", help="Continue with this flow file; repeat only what it changed.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="With --flow: value of an input.")
@click.option("--node", metavar="NODE", help="Continue this paused node.")
@force_option
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the result.")
@json_option
def resume(  # noqa: PLR0913 -- what Click hands over
    run: str,
    *,
    from_: str | None,
    file: str | None,
    inputs: tuple[str, ...],
    node: str | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Continue a run that was paused or whose process is gone; finished nodes are not repeated."""
    if inputs and not file:
        raise BadRequest("--input goes with --flow", hint="corral resume RUN --flow FILE --input NAME=VALUE")
    if node:
        return _unpause_node(run, node, as_json=as_json)
    request = flow_request(file, inputs=inputs) if file else None

    async def work(engine: Engine, shown: Plain) -> Run:
        if request:
            return await engine.resume_with(run, request, shown.hear, shown.say, patient=shown.patient)
        if from_:
            return await engine.retry(run, from_, shown.hear, shown.say, patient=shown.patient)
        return await engine.resume(run, shown.hear, patient=shown.patient, force=force)

    return in_foreground(work, quiet=quiet, as_json=as_json)


def _unpause_node(run: str, node: str, *, as_json: bool) -> int:
    engine = Engine()
    try:
        answer = asyncio.run(engine.control.unpause(run, node, current_user()))
    finally:
        engine.close()
    click.echo(msgspec.json.encode({"run": run, "answer": answer}).decode() if as_json else answer)
    return 0


@click.command()
@run_argument
@click.argument("node", required=False)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the result.")
@json_option
def retry(run: str, node: str | None, *, quiet: bool, as_json: bool) -> int:
    """Repeat what did not get done: NODE and all nodes after it, or all nodes that failed."""

    async def work(engine: Engine, shown: Plain) -> Run:
        return await engine.retry(run, node, shown.hear, shown.say, patient=shown.patient)

    return in_foreground(work, quiet=quiet, as_json=as_json)


@click.command()
@active_run_argument
@click.argument("node", required=False)
@json_option
def pause(run: str, node: str | None, *, as_json: bool) -> int:
    """Pause a run, or one NODE of it: attempts at work end, and `corral resume` continues them."""
    engine = Engine()
    try:
        answer = asyncio.run(engine.control.pause(run, node, current_user()))
    finally:
        engine.close()
    click.echo(msgspec.json.encode({"run": run, "answer": answer}).decode() if as_json else answer)
    return 0


@click.command()
@click.argument("repo", default=".")
@json_option
def trust(repo: str, *, as_json: bool) -> None:
    """Trust the current corral.toml of REPO to start programs and get keys. After a change, Corral asks again."""
    engine = Engine()
    file = engine.settings.file(Path(repo))
    if file is None:
        raise BadRequest(f"{repo} has no {REPOSITORY_FILE}", hint="nothing needs trust there")
    ask_for_trust(engine, file)
    click.echo(msgspec.json.encode({"trusted": str(file)}).decode() if as_json else f"trusted: {file}")
