"""`inbox`, `answer`: what waits for a user."""

from __future__ import annotations

import asyncio
import time

import click
import msgspec

from corral import amounts
from corral.engine.engine import Engine
from corral.frontends import text as words
from corral.frontends.cli.look import engine, json_option
from corral.frontends.user_name import current_user
from corral.model import Entry, InboxEntry


@click.command()
@click.option("--all", "whole", is_flag=True, help="Also list answered entries, with their answers and results.")
@json_option
def inbox(*, whole: bool, as_json: bool) -> None:
    """List what waits for you: approvals, questions of agents, conflicts, failures that need a decision."""
    with engine() as opened:
        entries = opened.inbox.entries(whole=whole)
    if as_json:
        click.echo(msgspec.json.encode([InboxEntry.of(entry) for entry in entries]).decode())
    elif not entries:
        click.echo("nothing waits for you", err=True)
    else:
        click.echo("\n\n".join("\n".join(_lines(entry)) for entry in entries))


@click.command()
@click.argument("number", metavar="ID")
@click.argument("text", metavar="yes|no|TEXT", nargs=-1, required=True)
@click.option("--resume", is_flag=True, help="If the run must be resumed afterwards, resume it in the background.")
@json_option
def answer(number: str, text: tuple[str, ...], *, resume: bool, as_json: bool) -> None:
    """Answer an entry of the inbox; an answer counts once, and Corral records who gave it."""
    with engine() as opened:
        entry = asyncio.run(_give_answer(opened, number, " ".join(text), resume=resume))
    if as_json:
        click.echo(msgspec.json.encode(InboxEntry.of(entry)).decode())
    else:
        click.echo(f"answered {entry.id}: {entry.answer}" + (f"; {entry.outcome}" if entry.outcome else ""))


async def _give_answer(opened: Engine, number: str, text: str, *, resume: bool) -> Entry:
    entry = await opened.inbox.answer(number, text, current_user())
    return await opened.inbox.go_on(entry) if resume else entry


def _lines(entry: Entry) -> list[str]:
    place = ", ".join(part for part in (f"run {entry.run}", entry.attempt) if part)
    lines = [f"{entry.id}  {entry.kind}: {entry.about}  ({place}, {words.age(entry.created)} ago)"]
    lines += [f"   {words.printable(line)}" for line in entry.text.splitlines()]
    lines += [f"   ({words.printable(line)})" for line in entry.context.splitlines()]
    if entry.is_open:
        left = amounts.seconds(max(0.0, entry.deadline - time.time()))
        choices = "|".join(entry.choices) or "TEXT"
        lines.append(
            f"   corral answer {entry.id} {choices}   without an answer in {left}: {words.printable(entry.default)}"
        )
    else:
        answered = f"{entry.answer} (by {entry.answered_by})" if entry.answer else "taken back"
        lines.append(f"   -> {words.printable(answered)}" + (f"; {entry.outcome}" if entry.outcome else ""))
    return lines
