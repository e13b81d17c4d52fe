"""`mail`: what the agents of a run wrote to each other."""

from __future__ import annotations

import click
import msgspec

from corral.engine import document
from corral.frontends.cli import words
from corral.frontends.cli.look import engine, json_option
from corral.rules.mail import MOST_DELIVERIES, RANKS
from corral.world.store.mail import Letter

NAMES = {rank: name for name, rank in RANKS.items()}


@click.command()
@click.argument("run", default="@last")
@json_option
def mail(run: str, *, as_json: bool) -> None:
    """Show the letters that the agents of RUN wrote to each other, and what became of each."""
    with engine() as opened:
        letters = opened.mail(run)
    if as_json:
        click.echo(msgspec.json.encode([_shown(letter) for letter in letters]).decode())
    elif not letters:
        click.echo("nobody has written to anybody", err=True)
    else:
        for letter in letters:
            first = f"{letter.id}  {letter.sender} to {letter.box}  {NAMES[letter.priority]}, {_state(letter)}"
            click.echo(f"{first}\n    {words.one_line(letter.text, 200)}")


def _state(letter: Letter) -> str:
    if letter.read_at is not None:
        return "read"
    if letter.deliveries >= MOST_DELIVERIES:
        return "dead"  # taken again and again, and never acknowledged
    return "taken" if letter.holder else "waiting"


def _shown(letter: Letter) -> dict[str, object]:
    return {
        "id": letter.id,
        "run": letter.run,
        "from": letter.sender,
        "to": letter.box,
        "thread": letter.thread,
        "priority": NAMES[letter.priority],
        "state": _state(letter),
        "deliveries": letter.deliveries,
        "at": document.moment(letter.at),
        "read": document.moment(letter.read_at) if letter.read_at else None,
        "text": letter.text,
    }
