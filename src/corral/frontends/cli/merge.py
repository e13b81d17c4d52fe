"""`merge`, `undo`: keep a run's work, or take it back."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.merge import pick_files
from corral.frontends import run_text
from corral.frontends import text as words
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run_argument import newest_here
from corral.frontends.text import patch_sink
from corral.model import document
from corral.model.errors import BadRequest
from corral.model.merge import STRATEGIES, Conflict, FilePick, MergeRecord, MergeRequest, Preview, Strategy


def _talk(text: str) -> None:
    click.echo(text, err=True)


def _pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for value in _parts(values):
        path, sign, choice = value.rpartition("=")
        if not sign or not path or not choice:
            raise BadRequest(f"{option} {value}: that is not FILE=WHAT", hint=f"{option} src/a.py=claude")
        found.append((path, choice))
    return tuple(found)


def _parts(values: tuple[str, ...]) -> Iterator[str]:
    """Split at commas, but for those that are before an equals sign: `a.py#1,3=claude,b.py=codex` are two."""
    for text in values:
        held = ""
        for part in text.split(","):
            held += part
            if "=" in part or not part:
                yield from [held] if held else []
                held = ""
            else:
                held += ","
        if held:
            yield held.rstrip(",")


def _takes(values: tuple[str, ...]) -> tuple[FilePick, ...]:
    return tuple(pick_files.parse_pick(path, who) for path, who in _pairs(values, "--take"))


@click.command()
@click.argument("runs", nargs=-1, metavar="RUN")
@click.option(
    "--queue", is_flag=True, help="Merge several runs in order, testing them together; continues an interrupted queue."
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    help="How to merge.  [default: auto]",
)
@click.option("--into", metavar="BRANCH", help="Target branch.  [default: the branch the run started from]")
@click.option("--preview", is_flag=True, help="Only show what would happen.")
@click.option(
    "--pick", metavar="ATTEMPT", help="Attempt to merge instead of the winner: its id, number, agent or agent:model."
)
@click.option(
    "--take",
    multiple=True,
    metavar="FILE[#1,3]=WHO,..",
    help="Build one result from files or hunks of several attempts.",
)
@click.option("--resolve", multiple=True, metavar="FILE=WHAT", help="Resolve a conflict: ours, theirs, base or a path.")
@click.option("--resolve-with", metavar="AGENT", help="Have an agent resolve the conflicts, and check the result.")
@click.option("--tries", type=click.IntRange(1, 10), default=3, help="Number of tries of that agent.  [default: 3]")
@click.option("--abort", is_flag=True, help="Abort a merge with conflicts.")
@click.option("--autostash", is_flag=True, help="Stash uncommitted changes and reapply them afterwards.")
@click.option("--no-checks", "no_checks", is_flag=True, help="Merge without checks on the merged tree.")
@json_option
def merge(runs: tuple[str, ...], *, queue: bool, preview: bool, abort: bool, as_json: bool, **options: object) -> int:
    """Merge the work of RUN into the branch it started from, after checking the merged tree; `corral undo` reverts it.

    A conflict or a checkout with changes moves nothing. Strategies: auto merges only without conflicts; ours and
    theirs let the branch or the run win where both changed the same lines; squash makes one commit; rebase makes a
    straight line; manual only reports; patch prints a patch; branch creates a branch; pr pushes that branch and opens
    a draft pull request on the forge of the remote; apply puts the result into the checkout as uncommitted changes, if
    no file that it changes has some already.
    """
    if queue:
        return _queue(runs, _request(runs[0] if runs else "", options), as_json=as_json)
    if len(runs) > 1:
        raise BadRequest("several runs at once go with --queue", hint="tested together: corral merge --queue RUN RUN")
    with engine() as opened:
        run = runs[0] if runs else newest_here(opened)
        request = _request(run, options)
        if abort:
            shown = opened.merges.abort(run, request.into)
            click.echo(document(shown).decode() if as_json else f"given up: {shown.run} is as before")
            return 0
        if preview or request.strategy == "manual":
            return _preview(asyncio.run(opened.merges.preview(request)), as_json=as_json)
        sink, asked = patch_sink(), time.time()
        record = asyncio.run(opened.merges.merge(request, _talk, sink))
        if request.strategy == "patch":
            sys.stdout.flush()
            return 0
        return _print_result(opened, record, as_json=as_json, was_there=record.at < asked)


def _queue(runs: tuple[str, ...], request: MergeRequest, *, as_json: bool) -> int:
    with engine() as opened:
        record = asyncio.run(opened.merges.queue(runs, request, _talk))
    if as_json:
        click.echo(msgspec.json.encode(record).decode())
    else:
        for run in record.merged:
            click.echo(f"merged   {run} into {record.into}")
        for run, why in record.lost:
            click.echo(f"left out {run}: {why}")
    return 1 if record.lost else 0


def _request(run: str, options: dict[str, object]) -> MergeRequest:
    return MergeRequest(
        run=run,
        strategy=cast("Strategy", options["strategy"]),
        into=cast("str | None", options["into"]),
        pick=cast("str | None", options["pick"]),
        take=_takes(cast("tuple[str, ...]", options["take"])),
        resolve=_pairs(cast("tuple[str, ...]", options["resolve"]), "--resolve"),
        resolve_with=cast("str | None", options["resolve_with"]),
        tries=cast("int", options["tries"]),
        autostash=bool(options["autostash"]),
        checks=not options["no_checks"],
    )


def _preview(found: Preview, *, as_json: bool) -> int:
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return 3 if not found.is_clean else 2 if any(place.trouble for place in found.checkouts) else 0
    size = f"{len(found.files)} files" if len(found.files) != 1 else words.printable(found.files[0])
    click.echo(
        f"merge    {found.run} into {found.into} ({found.strategy}): {size}  +{found.insertions} -{found.deletions}"
    )
    if found.fast_forward:
        click.echo(f"line     {found.into} has not moved: no merge commit is needed")
    if found.behind:
        click.echo(f"behind   {found.into} has {found.behind} commits that it does not know")
    if found.checks:
        click.echo("checks   " + "; ".join(found.checks))
    for place in found.checkouts:
        click.echo(f"files    {place.folder}: {place.trouble or 'follow'}")
    if found.between:
        click.echo(f"between  {' and '.join(found.between)}, two nodes of this run")
    _conflicts(found.conflicts)
    if found.is_clean and any(place.trouble for place in found.checkouts):
        click.echo("next     commit or stash what is there, or: corral merge --autostash")
        return 2
    click.echo("clean    nothing prevents it" if found.is_clean else f"next     {_ways(found.run)}")
    return 0 if found.is_clean else 3


def _print_result(opened: Engine, record: MergeRecord, *, as_json: bool, was_there: bool) -> int:
    code = 3 if record.state == "conflict" else 0
    if as_json:
        click.echo(document(opened.show(record.run)).decode())
        return code
    if record.state == "conflict":
        nodes = f" between {' and '.join(record.between)}" if record.between else ""
        click.echo(f"conflict {record.run} into {record.into}{nodes}: nothing was moved")
        _conflicts(record.conflicts)
        click.echo(f"next     {_ways(record.run)}")
        return code
    if record.before == record.after or was_there:
        click.echo(f"nothing  {record.into} has the work of {record.run} already")
        if record.url:
            click.echo(f"see      {record.url}")
        return code
    click.echo(_merge_line(record))
    if record.checks:
        click.echo("checks   " + "; ".join(run_text.check_words(check) for check in record.checks))
    if record.url:
        click.echo(f"see      {record.url}")
    click.echo(f"next     corral undo {record.run}")
    return code


def _merge_line(record: MergeRecord) -> str:
    if record.strategy == "apply":
        return f"applied  {record.run} to {record.checkouts[0]}, on {record.into}: not committed"
    before, after = (record.before or "nothing")[:12], (record.after or "")[:12]
    return f"merged   {record.run} into {record.into}: {before} -> {after}"


def _conflicts(conflicts: tuple[Conflict, ...]) -> None:
    for conflict in conflicts:
        sides = [f"{name} {blob[:12]}" for name, blob in (
            ("base", conflict.base), ("ours", conflict.ours), ("theirs", conflict.theirs)) if blob]  # fmt: skip
        click.echo(f"conflict {words.printable(conflict.path)} ({conflict.kind}): " + ", ".join(sides))


def _ways(run: str) -> str:
    return f"corral inbox   corral merge {run} --resolve FILE=ours|theirs|base|PATH   --resolve-with AGENT   --abort"


@click.command()
@click.argument("run", required=False)
@json_option
def undo(run: str | None, *, as_json: bool) -> int:
    """Undo the last merge of RUN, or the last merge here: restore refs and files exactly.

    It refuses if newer work would be lost. You can merge the run again afterwards.
    """
    with engine() as opened:
        record = asyncio.run(opened.merges.undo(run, Path.cwd(), _talk))
        if as_json:
            click.echo(document(opened.show(record.run)).decode())
        else:
            click.echo(f"undone   {record.run}: {_undone(record)}")
    return 0


def _undone(record: MergeRecord) -> str:
    if record.strategy == "apply":
        return f"the files in {record.checkouts[0]} are as they were"
    return f"{record.into} is back at {(record.before or 'nothing')[:12]}"


@click.command()
@click.option("--repo", default=".", metavar="DIR", help="Repository.  [default: .]")
@json_option
def overlap(repo: str, *, as_json: bool) -> None:
    """Predict conflicts of unmerged work: agents at work (by their last snapshot) and runs that wait to be merged.

    BEHIND is the number of commits on the branch that the work does not have.
    """
    with engine() as opened:
        found = asyncio.run(opened.merges.overlap(Path(repo)))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    if not found.work:
        click.echo("no unmerged work here", err=True)
        return
    clashes: dict[str, list[str]] = {}
    for clash in found.clashes:
        for one, other in ((clash.one, clash.other), (clash.other, clash.one)):
            clashes.setdefault(one, []).append(f"{other} in {', '.join(map(words.printable, clash.files))}")
    for each in found.work:
        if each.conflicts:
            clashes.setdefault(each.name, []).insert(
                0, f"{each.into} in {', '.join(map(words.printable, each.conflicts))}"
            )
    rows = [
        (
            each.name,
            each.agent,
            "at work" if each.live else "waits",
            f"{each.behind} behind {each.into}" if each.into else "-",
            "; ".join(clashes.get(each.name, [])) or "-",
        )
        for each in found.work
    ]
    click.echo(
        "\n".join(words.table(("ATTEMPT", "AGENT", "STATE", "BEHIND", "CLASHES WITH"), rows, drop=("STATE", "AGENT")))
    )
