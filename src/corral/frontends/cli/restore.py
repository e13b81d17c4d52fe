"""`checkpoint`, `open`, `restore`, `clean`: try results, bring back what is kept, and make room without losing work."""

from __future__ import annotations

import asyncio

import click
import msgspec

from corral.frontends import run_text, text
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.frontends.text import ProgressBar


@click.command()
@click.argument("attempt")
@click.option(
    "--into", metavar="DIR|BRANCH", help="New folder (begins with . or /) or branch.  [default: corral/restored/..]"
)
@click.option("--list", "listing", is_flag=True, help="Only list what is stored of it.")
@json_option
def restore(attempt: str, *, into: str | None, listing: bool, as_json: bool) -> None:
    """Restore the work of ATTEMPT, a snapshot (ATTEMPT@TIME, as --list shows it), or a checkpoint (RUN@NAME)."""
    with engine() as opened:
        if listing:
            found = asyncio.run(opened.work.snapshots(attempt))
            if as_json:
                click.echo(msgspec.json.encode(found).decode())
            else:
                click.echo("\n".join(f"{each.at or 'at its end':18} {each.commit[:12]}  {each.ref}" for each in found))
            return
        restored = asyncio.run(opened.work.restore(attempt, into))
    taken = " ".join(filter(None, (restored.attempt, restored.at)))
    if as_json:
        click.echo(msgspec.json.encode(restored).decode())
    elif restored.folder:
        click.echo(f"restored {taken}: its files are in {restored.folder}")
    else:
        click.echo(f"restored {taken}: branch {restored.branch}")
    if not as_json:
        for line in run_text.uncollected_lines(restored.not_collected, restored.workspace):
            click.echo(line, err=True)


@click.command()
@click.argument("run")
@click.argument("name", required=False)
@json_option
def checkpoint(run: str, name: str | None, *, as_json: bool) -> None:
    """Name the present state of RUN, for `corral restore RUN@NAME`; without a name, list its checkpoints.

    What an agent at work has done so far is part of it. Corral also makes some by itself, named by how long the agent
    had worked (after-12m), and shows what it had done last.
    """
    with engine() as opened:
        found = asyncio.run(opened.work.checkpoint(run, name) if name else opened.work.checkpoints(run))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    for each in found:
        late = f"  {text.one_line(each.about, 80)}" if each.automatic else "" if each.now else "  (its last snapshot)"
        click.echo(f"{each.name:24} {each.attempt}  {each.commit[:12]}{late}")


@click.command("open")
@run_argument
@click.argument("attempt", required=False)
@json_option
def open_(run: str, attempt: str | None, *, as_json: bool) -> None:
    """Make a folder with the result of RUN (or of one ATTEMPT) to try it in, and print its path: cd "$(corral open)".

    A folder that was opened before stays as it is. `corral clean` removes it with its run, unless you changed files.
    """
    with engine() as opened:
        found = asyncio.run(opened.work.open(run, attempt))
    click.echo(msgspec.json.encode(found).decode() if as_json else found.folder)
    if not as_json and not found.new:
        click.echo("it was opened before, and is as you left it", err=True)


@click.command()
@click.option(
    "--older",
    metavar="AGE",
    help="Remove runs that ended longer ago: 12h, 30d, 4w.  [default: 30d without --keep and --disk]",
)
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Remove all but the newest N.")
@click.option("--disk", metavar="SIZE", help="Remove the oldest until workspaces and logs take less: 500MB, 5GB.")
@click.option("--merged", "merged_only", is_flag=True, help="Leave attempts alone whose work no branch has.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@json_option
def clean(
    *, older: str | None, keep: int | None, disk: str | None, merged_only: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove workspaces, logs, branches, refs and messages of ended runs; keep their results.

    Corral never just deletes work that no branch has: a hidden ref keeps it for 30 more days, for `corral restore`.
    It recognises merged work, also squashed or rebased. `[clean]` of your settings has a server clean by itself.
    """
    with engine() as opened, ProgressBar("cleaning", "runs") as bar:
        cleaned = asyncio.run(
            opened.work.clean(
                older=older, keep=keep, disk=disk, dry=dry_run, merged_only=merged_only, report=bar.report
            )
        )
    if as_json:
        click.echo(msgspec.json.encode(cleaned).decode())
        return
    for each in cleaned:
        fate = "merged" if each.merged else f"its work is kept: {each.kept}" if each.kept else "no work"
        fate += f"; artifacts: {', '.join(each.artifacts)}" if each.artifacts else ""
        verb = "stays" if each.trouble else "would go" if dry_run else "removed"
        click.echo(f"{verb:8} {each.attempt}  {text.one_line(each.trouble or f'{each.why}; {fate}', 200)}")
    total = sum(each.bytes for each in cleaned if not each.trouble) / 1e6
    click.echo(f"{len(cleaned)} attempts, {total:.1f} MB", err=True)
