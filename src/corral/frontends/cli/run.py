"""`corral run`: the main job."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from corral import amounts
from corral.config import paths
from corral.config.paths import MOST_TEXT
from corral.engine.engine import Engine
from corral.frontends.cli.ask_trust import ask_for_trust
from corral.frontends.cli.foreground import in_foreground
from corral.frontends.cli.progress import Plain
from corral.frontends.user_name import current_user
from corral.model import Level, Request, Run, document
from corral.model.errors import BadRequest, Untrusted
from corral.model.flow import RunStrategy, Select, TaskImage, TaskType
from corral.model.run import read_labels
from corral.model.server import Ticket

MOST_ARGUMENT = 100_000
MOST_IMAGE_READ = 6 << 20  #: bytes; one that has more is refused


@click.command()
@click.argument("task", required=False, default="")
@click.option("--repo", default=".", metavar="DIR", help="Repository, or a plain folder.  [default: .]")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME[:MODEL]",
    help="Agent; see `corral agents`. Several (a,b or a*3) race.  [default: claude]",
)
@click.option("--strategy", type=click.Choice(get_args(RunStrategy)), help="Strategy.  [default: by the other options]")
@click.option("--task", "tasks", multiple=True, metavar="TEXT", help="Another task, run side by side; repeatable.")
@click.option(
    "--tasks", "tasks_file", metavar="FILE", help="File with tasks: one per line, or a JSON list; `-` is stdin."
)
@click.option("--review", is_flag=True, help="With --strategy multi: add a reviewer.")
@click.option(
    "--check", "checks", multiple=True, metavar="CMD", help="Command that must succeed on the result; repeatable."
)
@click.option(
    "--select",
    type=click.Choice(get_args(Select)),
    help="How to select the winner of a race: by evidence, by cost, or the first that is done.  [default: evidence]",
)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="CMD|NAME",
    help="Command that prints a score for a proven result, or a plug-in; repeatable.",
)
@click.option(
    "--judge", metavar="AGENT", help="Agent that compares the proven results of a race, without their agents' names."
)
@click.option(
    "--machine", metavar="NAME|any", help="Machine to run on, of [machines] in your config.toml.  [default: here]"
)
@click.option(
    "--held-out",
    metavar="DIR",
    help="Folder of checks that the agent never sees: added to its work, path by path, for another check.",
)
@click.option("--type", "type_", type=click.Choice(get_args(TaskType)), help="Type of task; `test` may change tests.")
@click.option("--image", "images", multiple=True, metavar="FILE", help="Image for the agent; repeatable.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="File that the task is about; repeatable.")
@click.option("--role", metavar="NAME", help="Role: developer, reviewer, architect, or your own.")
@click.option("--skill", "skills", multiple=True, metavar="NAME", help="Skill (SKILL.md); repeatable.")
@click.option("--read-only", is_flag=True, help="Succeed without changes: reviews, questions.")
@click.option("--output", metavar="SHAPE", help='Shape of the output: JSON like {"ok": "boolean"}, or a file.')
@click.option("--name", metavar="TEXT", help="Name of the run; `corral rename` changes it.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label for `corral ls --label`; repeatable."
)
@click.option("--base", metavar="REF", help="Branch, tag or commit to start from.  [default: HEAD]")
@click.option(
    "--with-changes", is_flag=True, help="Start from the checkout as it is: staged, unstaged and untracked changes too."
)
@click.option("--budget", "budget_usd", type=float, metavar="USD", help="Budget of the task: stop at this cost.")
@click.option("--max-tokens", type=int, metavar="N", help="Maximum tokens of an attempt.")
@click.option("--yes", is_flag=True, help="Exceed budgets of days and months without asking, up to the ceiling.")
@click.option("--timeout", metavar="TIME", help="Maximum wall clock time of each try: 90s, 20m, 2h.  [default: 60m]")
@click.option("--idle", metavar="TIME", help="Maximum silence of an agent.  [default: 15m]")
@click.option(
    "--retries",
    type=int,
    metavar="N",
    help="Number of retries after a failure, also of a check.  [default: 3, for temporary failures only]",
)
@click.option("--from-last", is_flag=True, help="Start a retry from the files of the last try.")
@click.option("--fallback", multiple=True, metavar="NAME,..", help="Agents to try next, of the same family.")
@click.option(
    "--require-sandbox",
    "require",
    type=click.Choice(get_args(Level)),
    help="Minimum sandbox level.  [default: strict; on macOS seatbelt]",
)
@click.option("--scope", metavar="FILE", help="File with the keys of [scope].")
@click.option(
    "--read",
    multiple=True,
    metavar="GLOB",
    help="Files the agent may read; absolute outside the workspace; repeatable.",
)
@click.option("--write", multiple=True, metavar="GLOB", help="Files the agent may write; repeatable.  [default: **]")
@click.option("--env", multiple=True, metavar="NAME", help="Variable to pass to the agent; repeatable.")
@click.option(
    "--net", metavar="off|on|HOST,..", help="Hosts besides the agent's provider; @registries.  [default: off]"
)
@click.option("--explain-scope", "explain", is_flag=True, help="Print the effective scope and start nothing.")
@click.option("--allow-unsandboxed", "unsandboxed", is_flag=True, help="Start even without a working sandbox.")
@click.option(
    "--merge", type=click.Choice(["never", "auto"]), default="never", help="Merge finished work.  [default: never]"
)
@click.option("--issue", metavar="URL", help="Issue of GitHub, GitLab, Forgejo or Linear that is the task.")
@click.option(
    "--callback", metavar="URL", help="Address to post to, signed, when the run is over or waits for an answer."
)
@click.option("--trust", is_flag=True, help="Trust this repository's corral.toml as it is now.")
@click.option("--detach", is_flag=True, help="Queue the run and return; a server or a new process runs it.")
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    help="Priority in the queue; higher is sooner.  [default: 0]",
)
@click.option("--json", "as_json", is_flag=True, help="Print only the run document, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the result.")
def run(
    task: str,
    *,
    as_json: bool,
    quiet: bool,
    explain: bool,
    detach: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run TASK with an agent in a private workspace, and check the result.

    TASK `-` reads stdin. Corral does not touch your checkout: the result is a branch corral/... and a receipt.

    Exit codes: 0 done, 1 failed, 2 bad request (nothing started), 3 waits for you (an answer, a merge conflict,
    paused), 4 stopped by the budget, 5 limited by a quota (resume it later), 130 stopped by the user.
    """
    request = build_request(task, **options)
    if explain:
        return _explain(request, as_json=as_json)
    if detach:
        return run_detached(request, as_json=as_json)

    async def work(engine: Engine, shown: Plain) -> Run:
        name = await submit(engine, request, shown)
        begun = engine.show(name)
        base = begun.base[:12] if begun.base else "an empty repository"
        shown.say(f"run {name} in {begun.repo} from {base}")
        if usual := engine.money.usual_cost(name):
            low, middle, high = usual
            shown.say(
                f"attempts like this cost {amounts.usd(low)} to {amounts.usd(high)} here before, "
                f"half of them {amounts.usd(middle)} or less"
            )
        if why := engine.history.flow_of(name).why:
            shown.say(f"strategy {begun.strategy}: {why}")
        return await engine.execute(name, shown.hear, patient=shown.patient)

    return in_foreground(work, quiet=quiet, as_json=as_json)


def build_request(
    task: str,
    *,
    tasks: tuple[str, ...],
    tasks_file: str | None,
    type_: str | None,
    labels: tuple[str, ...],
    images: tuple[str, ...] = (),
    **options: Any,  # noqa: ANN401 -- what Click hands over
) -> Request:
    """Put what a user typed into a request."""
    if task == "-":
        task = paths.read_stdin(MOST_TEXT, "the task", "name a file in the task").decode(errors="replace")
    elif len(task.encode(errors="surrogateescape")) > MOST_ARGUMENT:
        raise BadRequest("the task is too long for an argument", hint="give it on stdin: corral run - < task.txt")
    task = task.encode(errors="surrogateescape").decode(errors="replace")  # an argument may be no text at all
    more = (*tasks, *_tasks_of(Path(tasks_file))) if tasks_file else tasks
    shown = tuple(_image(Path(name)) for name in images)
    return Request(prompt=task, tasks=more, type=type_, labels=read_labels(labels), images=shown, **options)  # type: ignore[arg-type]


def _image(file: Path) -> TaskImage:
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_IMAGE_READ)
    except OSError as error:
        raise BadRequest(f"--image {file}: {error.strerror or error}", hint="a PNG, JPEG, GIF or WebP file") from error
    return TaskImage(file.name, base64.b64encode(content).decode())


def _tasks_of(file: Path) -> list[str]:
    """Read tasks: a JSON list of texts, or one on each line; `#` begins a remark."""
    named, hint = f"--tasks {file}", "a file with one task a line, or - for stdin"
    is_stdin = str(file) == "-"
    content = paths.read_stdin(MOST_TEXT, named, hint) if is_stdin else paths.read_file(file, MOST_TEXT, named, hint)
    try:
        text = content.decode()
    except UnicodeError as error:
        raise BadRequest(f"{named}: {error}", hint=hint) from error
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError as error:
            raise BadRequest(f"--tasks {file}: {error}", hint="a JSON list of texts") from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _explain(request: Request, *, as_json: bool) -> int:
    engine = Engine()
    try:
        explained = asyncio.run(engine.requests.prepare(request)).explained
    finally:
        engine.close()
    click.echo(msgspec.json.encode(explained).decode() if as_json else "\n".join(explained.lines()))
    return 0


def run_detached(request: Request, *, as_json: bool) -> int:
    """Queue a run and return: a server takes it up, or a process of its own."""
    engine = Engine()
    try:
        run = asyncio.run(engine.requests.enqueue(request, Ticket(by=current_user(), priority=request.priority), say))
        leave_to_background(engine, run, as_json=as_json)
    finally:
        engine.close()
    return 0


def leave_to_background(engine: Engine, run: str, *, as_json: bool) -> None:
    """Leave a queued run to the server, or to a process of its own, and print it."""
    say(asyncio.run(engine.active_runs.to_background(run)))
    click.echo(document(engine.show(run)).decode() if as_json else run)


def say(text: str) -> None:
    click.echo(text, err=True)


async def submit(engine: Engine, request: Request, shown: Plain) -> str:
    """Submit; where the repository's settings are not trusted yet, ask on a terminal."""
    try:
        return await engine.submit(request, shown.say)
    except Untrusted:
        file = engine.settings.file(Path(request.repo))
        if file is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
    with shown.pause():
        ask_for_trust(engine, file)
    return await engine.submit(request, shown.say)
