"""`show`, `logs`, `diff`, `export`: look, from any process, at runs that any process owns."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from corral import amounts
from corral.frontends import run_text
from corral.frontends import text as words
from corral.frontends.cli.run_argument import engine, list_run_ids, run_argument
from corral.frontends.text import ProgressBar, patch_view, printable
from corral.model import Run, moment
from corral.model.errors import BadRequest
from corral.model.events import Condensed, StoredEvent
from corral.model.merge import Hunks
from corral.model.money import notional_words

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@run_argument
@click.option("--receipt", is_flag=True, help="Only the receipt of the winner.")
@click.option("--attempt", metavar="N", help="With --receipt: of this attempt.")
@json_option
def show(run: str, *, receipt: bool, attempt: str | None, as_json: bool) -> None:
    """Show one run: its attempts, checks, cost and branch.

    RUN is an id, the beginning of one, or @last.  [default: the newest run of this repository]
    """
    with engine() as opened:
        if receipt:
            text = msgspec.json.encode(opened.work.receipt(run, attempt))
            click.echo((text if as_json else msgspec.json.format(text, indent=1)).decode())
            return
        if attempt is not None:
            raise BadRequest("--attempt is meant for a receipt", hint="corral show RUN --receipt --attempt 2")
        found = opened.show(run)
        if opened.merges.needs_git(found):
            import asyncio  # noqa: PLC0415 -- slow to load: users call `show` often

            found = asyncio.run(opened.merges.add_git_state(found))
        asked = opened.inbox.commands(found.run)
        windows = opened.money.windows_of(found) if found.cost.notional is True else []
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo("\n".join(run_text.summary(found, asked)))
    if found.cost.notional is True:
        click.echo(f"notional {notional_words(windows)}")
    rows = [
        (
            attempt.id,
            attempt.status,
            amounts.seconds(attempt.seconds),
            words.money(attempt.cost),
            run_text.agent_label(attempt),
            _remark(found, attempt.id),
        )
        for node in found.nodes
        for attempt in node.attempts
    ]
    if found.comments:
        click.echo("\n" + "\n".join(run_text.comment_line(each) for each in found.comments))
    if rows:
        click.echo(
            "\n"
            + "\n".join(
                words.table(("ATTEMPT", "STATUS", "TIME", "COST", "AGENT", "REMARK"), rows, drop=("TIME", "COST"))
            )
        )


def _remark(run: Run, name: str) -> str:
    for node in run.nodes:
        for attempt in node.attempts:
            if attempt.id == name:
                why = f"{attempt.error.kind}: {attempt.error.message}" if attempt.error else run_text.changes(attempt)
                return f"winner: {node.why}" if node.winner == name else why
    return ""


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the run ends.")
@click.option("--prompt", is_flag=True, help="Only the exact prompt of the last attempt.")
@click.option("--summaries", is_flag=True, help="Only the summaries of condensed sessions, in full.")
@click.option("--attempt", metavar="N", help="Only this attempt: its id, or its number.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one per line.")
def logs(run: str, *, follow: bool, prompt: bool, summaries: bool, attempt: str | None, as_json: bool) -> None:
    """Show what the agents of a run said and did."""
    gc.enable()  # it may continue for hours
    with engine() as opened:
        if prompt:
            text = opened.work.prompt(run)
            click.echo(msgspec.json.encode({"prompt": text}).decode() if as_json else text)
            return
        name = opened.show(run).run
        if summaries:
            for stored in opened.history.summaries(name):
                click.echo(_as_json(stored) if as_json else _summary(stored))
            return
        only = opened.work.changed_by(name, attempt).id if attempt else None
        for stored in opened.history.follow(name) if follow else opened.history.events(name):
            if only not in (None, stored.attempt):
                continue
            text = _as_json(stored) if as_json else _as_text(stored)
            if text:
                sys.stdout.write(text + "\n")
                if follow:
                    sys.stdout.flush()


def _as_json(stored: StoredEvent) -> str:
    head = {"seq": stored.seq, "at": moment(stored.at), "node": stored.node, "attempt": stored.attempt}
    # The body is JSON already: joining texts keeps every event byte for byte.
    return msgspec.json.encode(head).decode()[:-1] + "," + stored.body.decode()[1:]


def _summary(stored: StoredEvent) -> str:
    event = stored.event()
    if not isinstance(event, Condensed):
        return ""
    head = f"# summary {event.number} of {stored.attempt} by {event.by}: {event.reason}"
    return head + "\n\n" + "\n".join(words.printable(line) for line in event.summary.splitlines()) + "\n"


def _as_text(stored: StoredEvent) -> str | None:
    text = run_text.event_words(stored.event())
    if text is None:
        return None
    at = moment(stored.at)[11:19]
    who = (stored.attempt or "").rpartition("-")[2]
    return "\n".join(f"{at} {who:>2}  {words.printable(line)}" for line in text.splitlines())


@click.command()
@run_argument
@click.argument("attempt", required=False)
@click.option("--stat", is_flag=True, help="Only the files and their number of changed lines.")
@click.option("--hunks", is_flag=True, help="All attempts in numbered hunks, as `corral merge --take` names them.")
@json_option
def diff(run: str, attempt: str | None, *, stat: bool, hunks: bool, as_json: bool) -> None:
    """Show the change of a run (or of one ATTEMPT: its id, or its number) as a patch for `git apply`."""
    import asyncio  # noqa: PLC0415 -- only this command of the module needs it

    with engine() as opened:
        if hunks:
            cut = asyncio.run(opened.merges.hunks(run, attempt))
            click.echo(msgspec.json.encode(cut).decode() if as_json else "\n".join(hunk_lines(cut)))
            return
        if stat or as_json:
            found = opened.work.changed_by(run, attempt)
            if as_json:
                click.echo(
                    msgspec.json.encode(
                        {
                            "attempt": found.id,
                            "commit": found.commit,
                            "files_changed": found.files_changed,
                            "insertions": found.insertions,
                            "deletions": found.deletions,
                            "comments": opened.review.comments(run),
                        }
                    ).decode()
                )
            else:
                click.echo(
                    "\n".join([*map(words.printable, found.files_changed), f"+{found.insertions} -{found.deletions}"])
                )
            return
        sys.stdout.flush()
        with patch_view() as sink:
            asyncio.run(opened.work.diff(run, attempt, sink))
        if opened.work.changed_by(run, attempt).commit is None:
            click.echo("nothing changed", err=True)
        for each in opened.review.comments(run):
            click.echo(run_text.comment_line(each), err=True)


def _record(run: str | None, file: str, attempt: str | None) -> int:
    import asyncio  # noqa: PLC0415 -- only this command of the module needs it

    if run is None:
        raise BadRequest("--recording needs a run", hint=f"corral export @last --recording {file}")
    with engine() as opened:
        recorded = asyncio.run(opened.work.record(run, attempt, Path(file)))
    click.echo(f"recorded {recorded.id} ({recorded.agent}); play it: --agent replay:{file}", err=True)
    return 0


@click.command()
@click.argument("run", required=False, shell_complete=list_run_ids)
@click.option("--recording", metavar="FILE", help="File for one attempt of RUN, to use with --agent replay:FILE.")
@click.option("--attempt", metavar="N", help="Attempt to record.  [default: the winner, or the last]")
@click.option("--json", "_", is_flag=True, expose_value=False, help="No effect: the output is always JSON lines.")
def export(run: str | None, recording: str | None, attempt: str | None) -> int:
    """Print all stored data, or that of one RUN, as JSON lines: a backup that any program can read.

    With --recording, write one attempt to a file that replays as an agent: its output, times and changes, without
    secrets.
    """
    if recording is not None:
        return _record(run, recording, attempt)
    if attempt is not None:
        raise BadRequest("--attempt is meant for a recording", hint="corral export RUN --recording FILE --attempt 2")
    with engine() as opened:
        sound = opened.check_store()
        if sound != "ok":
            click.echo(f"the database is damaged: {sound}; this is what can be read", err=True)
        troubles: list[str] = []
        with ProgressBar("exporting", "runs", prints=True) as bar:
            for item in opened.history.export(run, troubles.append, bar.report):
                text = msgspec.json.encode(item).decode() if isinstance(item, Run) else _as_json(item)
                sys.stdout.write(text + "\n")
    for trouble in troubles:
        click.echo(trouble, err=True)
    return 1 if troubles or sound != "ok" else 0


def hunk_lines(changes: Sequence[Hunks]) -> Iterator[str]:
    """Yield what each attempt changed; what is before a hunk is what `corral merge --take` calls it."""
    for change in changes:
        yield f"attempt {change.attempt} ({change.agent})"
        for file in change.files:
            path = printable(file.path)
            if file.whole:
                yield f"{path}   only as a whole: {file.whole}"
            for hunk in file.hunks:
                yield f"{path}#{hunk.number}   {printable(hunk.head)}"
                yield from (f"  {printable(line)}" for line in hunk.text.removesuffix("\n").split("\n"))
