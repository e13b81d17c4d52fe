"""`inbox`, `answer`: what waits for a person."""

from __future__ import annotations

import asyncio
import time

import click
import msgspec

from corral.engine.looking import document
from corral.frontends.cli import words
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.who import who
from corral.model import Entry


@click.command()
@click.option("--all", "whole", is_flag=True, help="Also what was answered, by whom, and what came of it.")
@json_option
def inbox(*, whole: bool, as_json: bool) -> None:
    """List what waits for you: approvals, questions of agents, conflicts, failures that need a decision."""
    with engine() as opened:
        entries = opened.inbox.entries(whole=whole)
    if as_json:
        click.echo(msgspec.json.encode([shown(entry) for entry in entries]).decode())
    elif not entries:
        click.echo("nothing waits for you", err=True)
    else:
        click.echo("\n\n".join("\n".join(_lines(entry)) for entry in entries))


@click.command()
@click.argument("number", metavar="ID")
@click.argument("text", metavar="yes|no|TEXT", nargs=-1, required=True)
@json_option
def answer(number: str, text: tuple[str, ...], *, as_json: bool) -> None:
    """Answer what waits in the inbox; an answer counts once, and who gave it is kept."""
    with engine() as opened:
        entry = asyncio.run(opened.inbox.answer(number, " ".join(text), who()))
    if as_json:
        click.echo(msgspec.json.encode(shown(entry)).decode())
    else:
        click.echo(f"answered {entry.id}: {entry.answer}" + (f"; {entry.outcome}" if entry.outcome else ""))


def shown(entry: Entry) -> dict[str, object]:
    """Return an entry as machines read it."""
    return {
        "id": entry.id,
        "run": entry.run,
        "node": entry.node,
        "attempt": entry.attempt,
        "kind": entry.kind,
        "about": entry.about,
        "text": entry.text,
        "context": entry.context,
        "choices": entry.choices,
        "default": entry.default,
        "deadline": document.moment(entry.deadline),
        "created": document.moment(entry.created),
        "answered_at": None if entry.answered_at is None else document.moment(entry.answered_at),
        "answer": entry.answer,
        "answered_by": entry.answered_by,
        "outcome": entry.outcome,
    }


def _lines(entry: Entry) -> list[str]:
    place = ", ".join(part for part in (f"run {entry.run}", entry.attempt) if part)
    lines = [f"{entry.id}  {entry.kind}: {entry.about}  ({place}, {words.ago(entry.created)} ago)"]
    lines += [f"   {words.printable(line)}" for line in entry.text.splitlines()]
    lines += [f"   ({words.printable(line)})" for line in entry.context.splitlines()]
    if entry.open:
        left = words.seconds(max(0.0, entry.deadline - time.time()))
        choices = "|".join(entry.choices) or "TEXT"
        lines.append(f"   corral answer {entry.id} {choices}   in {left} by itself: {words.printable(entry.default)}")
    else:
        answered = f"{entry.answer} (by {entry.answered_by})" if entry.answer else "taken back"
        lines.append(f"   -> {words.printable(answered)}" + (f"; {entry.outcome}" if entry.outcome else ""))
    return lines
