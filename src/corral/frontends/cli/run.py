"""`corral run`: the main job."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from corral.engine.engine import Engine
from corral.frontends.cli.ask_trust import ask_for_trust
from corral.frontends.cli.foreground import in_foreground
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.user_name import current_user
from corral.model import Level, Request, Run, document
from corral.model.errors import BadRequest, Untrusted
from corral.model.flow import RunStrategy, Select, TaskType
from corral.model.run_labels import read_labels
from corral.model.server import Ticket

MOST_ARGUMENT = 100_000


@click.command()
@click.argument("task", required=False, default="")
@click.option("--repo", default=".", metavar="DIR", help="The repository, or a plain folder.  [.]")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME[:MODEL]",
    help="Who does it; see `corral agents`. Several (a,b or a*3) are a race.  [claude]",
)
@click.option("--strategy", type=click.Choice(get_args(RunStrategy)), help="How it is done.  [by what was asked for]")
@click.option("--task", "tasks", multiple=True, metavar="TEXT", help="A further task, side by side; repeatable.")
@click.option("--tasks", "tasks_file", metavar="FILE", help="Tasks from a file: one a line, or a JSON list.")
@click.option("--review", is_flag=True, help="With --strategy multi: a reviewer looks at the result.")
@click.option(
    "--check", "checks", multiple=True, metavar="CMD", help="A command that must succeed on the result; repeatable."
)
@click.option(
    "--select",
    type=click.Choice(get_args(Select)),
    help="How a race is decided: by evidence, by cost, or by who is done first.  [evidence]",
)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="CMD|NAME",
    help="A command that prints a number for a proven result, or a plug-in; repeatable.",
)
@click.option("--judge", metavar="AGENT", help="Who compares proven results of a race, without knowing whose they are.")
@click.option(
    "--held-out",
    metavar="DIR",
    help="Files of checks that the agent never sees: laid over its work, path by path, and checked again.",
)
@click.option(
    "--type", "type_", type=click.Choice(get_args(TaskType)), help="The kind of task; `test` may change tests."
)
@click.option("--file", "files", multiple=True, metavar="PATH", help="A file the task is about; repeatable.")
@click.option("--role", metavar="NAME", help="Who it is to be: developer, reviewer, architect, or one of your own.")
@click.option("--skill", "skills", multiple=True, metavar="NAME", help="A skill it is to have (SKILL.md); repeatable.")
@click.option("--read-only", is_flag=True, help="Changing nothing is success: reviews, questions.")
@click.option("--output", metavar="SHAPE", help='What its output must fit: JSON like {"ok": "boolean"}, or a file.')
@click.option("--name", metavar="TEXT", help="A name for the run; `corral rename` changes it.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="To find it again; repeatable.")
@click.option("--base", metavar="REF", help="Start from this branch, tag or commit.  [HEAD]")
@click.option("--budget", "budget_usd", type=float, metavar="USD", help="Stop when it has cost this much.")
@click.option("--max-tokens", type=int, metavar="N", help="Stop an attempt that has used so many tokens.")
@click.option("--yes", is_flag=True, help="Go on past budgets of days and months without asking, up to the ceiling.")
@click.option("--timeout", metavar="TIME", help="Wall clock for each try: 90s, 20m, 2h.  [60m]")
@click.option("--idle", metavar="TIME", help="How long an agent may be silent.  [15m]")
@click.option(
    "--retries",
    type=int,
    metavar="N",
    help="Further tries after a failure, also of a check.  [3, passing troubles only]",
)
@click.option("--from-last", is_flag=True, help="A further try starts from the files of the last, not clean.")
@click.option(
    "--fallback", multiple=True, metavar="NAME,..", help="Who tries next when the agent cannot; of its family."
)
@click.option(
    "--require-sandbox",
    "require",
    type=click.Choice(get_args(Level)),
    help="Start only at this level or above.  [strict; on macOS seatbelt]",
)
@click.option("--scope", metavar="FILE", help="A file with keys like those of [scope].")
@click.option("--read", multiple=True, metavar="GLOB", help="What it may read; absolute for outside; repeatable.")
@click.option("--write", multiple=True, metavar="GLOB", help="What it may write; repeatable.  [**]")
@click.option("--env", multiple=True, metavar="NAME", help="A variable it is given; repeatable.")
@click.option("--net", metavar="off|on|HOST,..", help="Hosts besides its own provider; @registries.  [off]")
@click.option("--explain-scope", "explain", is_flag=True, help="Print the effective scope, and start nothing.")
@click.option("--allow-unsandboxed", "unsandboxed", is_flag=True, help="Start even where no sandbox holds.")
@click.option("--merge", type=click.Choice(["never", "auto"]), default="never", help="Land what is done.  [never]")
@click.option("--trust", is_flag=True, help="Trust this repository's corral.toml as it is now.")
@click.option("--detach", is_flag=True, help="Queue it and return: a server takes it up, or a process of its own.")
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, help="Among runs that wait: more is sooner.  [0]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the run document, and nothing else.")
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
def run(
    task: str,
    *,
    as_json: bool,
    quiet: bool,
    explain: bool,
    detach: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Have an agent do TASK in a workspace of its own, and prove the result.

    TASK `-` is read from stdin. Your checkout is not touched: the result is a branch corral/... and a receipt.

    Exit codes: 0 done, 1 failed, 2 bad request (nothing started), 3 waits for a person (an answer, a merge
    conflict, paused), 4 stopped by the budget, 5 limited by a quota (resume it later), 130 stopped by a person.
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
                f"attempts like this cost ${low:.2f} to ${high:.2f} here before, half of them ${middle:.2f} or less"
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
    **options: Any,  # noqa: ANN401 -- what Click hands over
) -> Request:
    """Put what a person typed into a request."""
    if task == "-":
        task = sys.stdin.buffer.read().decode(errors="replace")
    elif len(task.encode(errors="surrogateescape")) > MOST_ARGUMENT:
        raise BadRequest("the task is too long for an argument", hint="give it on stdin: corral run - < task.txt")
    task = task.encode(errors="surrogateescape").decode(errors="replace")  # an argument may be no text at all
    more = (*tasks, *_tasks_of(Path(tasks_file))) if tasks_file else tasks
    return Request(prompt=task, tasks=more, type=type_, labels=read_labels(labels), **options)  # type: ignore[arg-type]


def _tasks_of(file: Path) -> list[str]:
    """Read tasks: a JSON list of texts, or one on each line; `#` begins a remark."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise BadRequest(f"--tasks {file}: {getattr(error, 'strerror', None) or error}") from error
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
