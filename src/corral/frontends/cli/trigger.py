"""`trigger`: tasks that a server starts when another program calls, or when a branch moves."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any

import click
import msgspec

from corral.config import paths
from corral.config.paths import MOST_TEXT
from corral.engine.engine import Engine
from corral.engine.queue.rows import TriggerRow, trigger_row
from corral.engine.queue.triggers import occasion
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run import leave_to_background, say
from corral.frontends.cli.task_options import FEW, add_switches, like_run, stored_request, warn_if_alone, what
from corral.frontends.user_name import current_user
from corral.model.errors import BadRequest, Conflicting
from corral.model.forge import ForgeKind
from corral.model.server import TriggerRecord

LEAST_SECRET = 16
RESOLVE = "Resolve the issue."  #: the task of a forge, where none is given


@click.group()
def trigger() -> None:
    """Start a task by a server when another program calls it, or when a branch moves.

    The task can contain the payload: `corral trigger add issues "Look at {{payload.issue.title}}" --when
    "payload.action == 'opened'"`. It needs a running server: `corral serve`.
    """


@trigger.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List triggers and the result of the last branch move, without their secrets."""
    with engine() as opened:
        found = opened.triggers.all()
        if as_json:
            click.echo(msgspec.json.encode([trigger_row(each) for each in found]).decode())
            return
        if not found:
            say('no trigger yet; make one: corral trigger add NAME "Look at {{payload.subject}}" --branch main')
            return
        rows = [
            (
                each.name,
                "on" if each.enabled else "paused",
                f"branch {each.branch}" if each.branch else " ".join(each.on) or "calls",
                each.when or "always",
                each.last or "-",
                what(each.request),
            )
            for each in found
        ]
        click.echo("\n".join(text.table(("TRIGGER", "STATE", "ON", "WHEN", "LAST", "TASK"), rows)))
        warn_if_alone(opened)


@like_run
@trigger.command("add")
@click.argument("called", metavar="NAME")
@click.argument("task", required=False, default="")
@click.option("--branch", default="", metavar="NAME", help="Branch whose new commits also start the task.")
@click.option(
    "--forge",
    type=click.Choice(["github", "gitlab", "forgejo", "gitea"]),
    help="Forge that calls: its labels and comments start the task, and get the result.",
)
@click.option(
    "--on",
    multiple=True,
    metavar="OCCASION",
    help="Of a forge: label:NAME or comment:WORD.  [default: label:corral, comment:/corral]",
)
@click.option(
    "--who",
    multiple=True,
    metavar="USER",
    help="Of a forge: who may start it: a user, @write or association:NAME.  [default: @write]",
)
@click.option(
    "--when",
    default="",
    metavar="CONDITION",
    help="Condition over `payload` and `event`, as in flows.  [default: always]",
)
@click.option(
    "--approve",
    default="",
    metavar="TIME",
    help="Ask a user before it starts, for this long; without an answer it does not start.",
)
@click.option(
    "--approve-unless", default="", metavar="CONDITION", help="Condition under which it starts without asking."
)
@click.option(
    "--secret-env", metavar="NAME", help="Variable with the secret that signs calls.  [default: a new secret]"
)
@click.option("--most-open", type=FEW, default=4, help="Maximum number of its open runs.  [default: 4]")
@click.option("--per-hour", type=FEW, default=30, help="Maximum runs per hour.  [default: 30]")
@click.option("--replace", is_flag=True, help="Replace an existing trigger of this name; keep its secret.")
@json_option
def add(  # noqa: PLR0913 -- what Click hands over
    called: str,
    task: str,
    *,
    branch: str,
    forge: ForgeKind | None,
    on: tuple[str, ...],
    who: tuple[str, ...],
    when: str,
    approve: str,
    approve_unless: str,
    secret_env: str | None,
    most_open: int,
    per_hour: int,
    replace: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    """Start TASK when it is called, and print the secret that signs calls, once.

    The options of the task are those of `corral run`; they are checked now. {{payload.…}} and {{event}} in TASK are
    replaced.
    """
    with engine() as opened:
        before = next((each for each in opened.triggers.all() if each.name == called), None)
        if before and not replace:
            raise Conflicting(f"a trigger is called `{called}` already", hint="another name, or --replace")
        record = TriggerRecord(
            name=called,
            secret=_secret(secret_env) or (before.secret if before else ""),
            request=stored_request(opened, task or (RESOLVE if forge else ""), **options),
            by=current_user(),
            when=when,
            approve=approve,
            approve_unless=approve_unless,
            forge=forge,
            on=on,
            who=who,
            branch=branch,
            most_open=most_open,
            per_hour=per_hour,
        )
        made = asyncio.run(opened.triggers.put(record))
        click.echo(msgspec.json.encode(trigger_row(made, secret=True)).decode() if as_json else made.secret)
        _how_to_call(opened, called)
        warn_if_alone(opened)


@trigger.command("run")
@click.argument("name")
@click.option("--payload", metavar="FILE", help="File with the payload as JSON; `-` is stdin.  [default: {}]")
@click.option("--event", default="", metavar="NAME", help="Kind of call, as in X-GitHub-Event.")
@json_option
def run(name: str, *, payload: str | None, event: str, as_json: bool) -> int:
    """Call a trigger by hand: its condition and its limits apply; exit code 1 if nothing starts."""
    called = occasion(secrets.token_hex(8), event, _payload_bytes(payload))
    with engine() as opened:
        fired = asyncio.run(opened.triggers.fire(opened.triggers.find(name), called, lambda _: None))
        if fired.run:
            leave_to_background(opened, fired.run, as_json=as_json)
            return 0
    if as_json:
        click.echo(msgspec.json.encode({"trigger": name, "reason": fired.reason, "run": None}).decode())
    else:
        say(f"nothing starts: {fired.reason}")
    return 1


def _how_to_call(opened: Engine, name: str) -> None:
    server = opened.active_runs.server()
    address = server.address if server else "http://127.0.0.1:4747"
    say(f"keep the secret: it is not shown again. Calls go to {address}/api/v1/triggers/{name}, signed with it")


def _secret(variable: str | None) -> str:
    if variable is None:
        return ""
    found = os.environ.get(variable, "")
    if len(found) < LEAST_SECRET:
        raise BadRequest(
            f"--secret-env {variable}: it holds no secret of {LEAST_SECRET} characters or more",
            hint=f"export {variable}=$(openssl rand -hex 32)",
        )
    return found


def _payload_bytes(payload: str | None) -> bytes:
    if payload is None:
        return b""
    named, hint = f"--payload {payload}", "give the path of a JSON file, or - for stdin"
    if payload == "-":
        return paths.read_stdin(MOST_TEXT, named, hint)
    return paths.read_file(Path(payload), MOST_TEXT, named, hint)


def _state(opened: Engine, name: str) -> tuple[TriggerRow, str]:
    record = opened.triggers.find(name)
    return trigger_row(record), "on" if record.enabled else "paused"


add_switches(
    trigger,
    lambda opened: opened.triggers,
    _state,
    rests="Pause a trigger until `corral trigger resume`: calls are refused, branches not watched.",
    returns="Resume a paused trigger; what its branch did meanwhile does not count.",
)
