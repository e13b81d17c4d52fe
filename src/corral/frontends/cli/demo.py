"""`corral demo`: the whole loop in a throw-away repository, with scripted agents and the real everything else."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from corral import amounts
from corral.engine import user_folders
from corral.engine.engine import Engine
from corral.frontends import run_text
from corral.frontends import text as words
from corral.frontends.cli.comparison_table import comparison_lines
from corral.frontends.cli.foreground import display
from corral.model import Request, Run
from corral.model.merge import MergeRequest
from corral.model.money import Budget

CHECK = "python3 -m unittest -q"
TASK = "add() gives wrong results for negative numbers: fix it"


@click.command()
@click.option("--keep", is_flag=True, help="Keep the repository and its state.")
@click.option("--json", "as_json", is_flag=True, help="Print the documents of its two runs; progress goes to stderr.")
def demo(*, keep: bool, as_json: bool) -> int:
    """Show the whole loop: a failing check, a retry, a race, merge, undo, cost. No key, no config, no network."""
    folder = Path(tempfile.mkdtemp(prefix="corral-demo-"))
    try:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            runs = asyncio.run(_play(folder))
        if as_json:
            click.echo(msgspec.json.encode(runs).decode())
        return 0 if all(run.status == "done" for run in runs) else 1
    finally:
        if keep:
            click.echo(
                f"\nkept: cd {folder / 'calculator'} && CORRAL_HOME={folder / 'state'} corral show @last", err=as_json
            )
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def _play(folder: Path) -> list[Run]:
    repository, script = await user_folders.build(folder)
    engine = Engine(folder / "state")
    click.echo(
        "The agent in this demo is scripted: no model is asked. All else is real: git, sandbox, processes, checks.\n"
    )
    click.echo("1. A repository with a bug. Its test fails on the base:\n")
    click.echo(_indent(await user_folders.failing_test(repository, CHECK)) + "\n")
    click.echo(f'2. corral run "{TASK}" --check "{CHECK}" --retries 1\n')
    request = Request(
        prompt=TASK,
        repo=str(repository),
        agents=(f"scripted:{script}",),
        checks=(CHECK,),
        retries=1,
        unsandboxed=True,  # these agents are our own: the best level there is will do, and is reported
    )
    with display(engine, quiet=False) as shown:
        run = await engine.execute(await engine.submit(request, shown.say), shown.hear)
    click.echo("\n" + _indent("\n".join(run_text.summary(run))))
    _explain(run)
    click.echo(f"4. corral diff {run.run}\n")
    patch = bytearray()
    await engine.work.diff(run.run, None, patch.extend)
    click.echo(_indent(patch.decode()) + "\n")
    click.echo("5. Your checkout was not touched; the proof lies beside the commit, as a git note:\n")
    click.echo(_indent(await user_folders.picture(repository)) + "\n")
    await _merge(engine, run.run, repository)
    raced = await _race(engine, repository, script.parent)
    _cost(engine)
    engine.close()
    click.echo('\nNow yours: corral doctor, then corral run "..." --check "..." in a repository.')
    return [run, raced]


async def _race(engine: Engine, repository: Path, scripts: Path) -> Run:
    """Let three agents do the same, and look at who wins and why."""
    names = [f"scripted:{name}" for name in user_folders.RIVALS]
    click.echo(f'\n8. Three agents at once: corral run "{TASK}" --agent {",".join(names)} --check "{CHECK}"\n')
    request = Request(
        prompt=TASK,
        repo=str(repository),
        agents=tuple(f"scripted:{scripts / name}" for name in user_folders.RIVALS),
        checks=(CHECK,),
        retries=0,
        unsandboxed=True,
    )
    with display(quiet=True) as shown:
        run = await engine.execute(await engine.submit(request, shown.say), shown.hear)
    click.echo(_indent("\n".join(comparison_lines(engine.work.compare(run.run)))))
    return run


def _cost(engine: Engine) -> None:
    found = engine.money.overview(Budget()).by("model")
    click.echo(f"\n9. corral cost --by model: {amounts.usd(found.usd or 0.0)}, as the scripts say; nothing was paid.\n")
    rows = [(Path(row.key).name, amounts.usd(row.usd or 0.0), str(row.attempts), str(row.done)) for row in found.rows]
    click.echo(_indent("\n".join(words.table(("MODEL", "COST", "ATTEMPTS", "DONE"), rows))))


async def _merge(engine: Engine, run: str, repository: Path) -> None:
    """Merge the work, show that its files are there, and take it back."""
    click.echo(f"6. corral merge {run}\n")
    record = await engine.merges.merge(MergeRequest(run=run), click.echo)
    click.echo(f"   {record.state}   {run} into {record.into}")
    click.echo(_indent(await user_folders.picture(repository)) + "\n")
    click.echo(f"7. corral undo {run}\n")
    record = await engine.merges.undo(run, repository, click.echo)
    click.echo(f"   {record.state}   {run}: {record.into} is back at {(record.before or '')[:12]}")
    click.echo(_indent(await user_folders.picture(repository)))


def _explain(run: Run) -> None:
    click.echo("\n3. What happened:")
    for attempt in run.nodes[0].attempts:
        why = attempt.error.message if attempt.error else "proven: the check passes in a clean checkout of its commit"
        click.echo(f"   try {attempt.number}: the agent said it was done. {attempt.status}: {why}")
    click.echo("")


def _indent(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())
