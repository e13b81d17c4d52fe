"""`issues`: labelled issues of a forge become runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from corral.config.times import duration
from corral.engine.engine import Engine
from corral.engine.issue_watch import WatchOrder
from corral.frontends.cli.foreground import drive
from corral.frontends.cli.look import json_option
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.run import build_request
from corral.frontends.cli.task_options import like_run
from corral.frontends.user_name import current_user
from corral.model.forge import WatchedIssues

LEAST_SECONDS = 1.0
NOT_HERE = frozenset({"issue", "flow_file", "inputs", "callback", "tasks", "tasks_file", "merge"})


@click.group()
def issues() -> None:
    """Turn labelled issues of the repository's forge into runs."""


@like_run
@issues.command("watch")
@click.argument("task", required=False, default="")
@click.option("--issue-label", default="corral", metavar="LABEL", help="Label of the issues.  [default: corral]")
@click.option("--once", is_flag=True, help="Look once, finish what is found, and return.")
@click.option("--every", default="60s", metavar="TIME", help="Time between two looks.  [default: 60s]")
@json_option
def watch(task: str, *, issue_label: str, once: bool, every: str, as_json: bool, **options: Any) -> int:  # noqa: ANN401
    """Watch the open issues with a label: each becomes a run, and its result a draft pull request.

    A label counts if the user who set it may push; others are ignored, and the issue says so. A run that changes
    nothing is reported in the issue. TASK, if given, comes before the text of each issue. The other options are those
    of `corral run`.
    """
    every_seconds = max(LEAST_SECONDS, duration(every, "--every"))
    options |= {"tasks": (), "tasks_file": None}
    request = build_request(task, **options)
    found: list[WatchedIssues] = []

    async def work(engine: Engine, shown: Plain) -> None:
        wanted = WatchOrder(request=request, label=issue_label, by=current_user(), listen=shown.hear, say=shown.say)
        if once:
            found.append(await engine.issues.look(wanted))
        else:
            await engine.issues.keep(wanted, every_seconds)

    drive(work, quiet=as_json)
    if not once:
        return 130
    if as_json:
        click.echo(msgspec.json.encode(found[0].work).decode())
    else:
        lines = [f"#{each.number}  {each.reason}" for each in found[0].work]
        click.echo("\n".join(lines) if lines else "nothing new", err=not lines)
    return 0


watch.params = [each for each in watch.params if each.name not in NOT_HERE]
