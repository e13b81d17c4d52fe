"""`mail`: what the agents of a run wrote to each other."""

from __future__ import annotations

import click
import msgspec

from corral.frontends.cli import text
from corral.frontends.cli.look import engine, json_option


@click.command()
@click.argument("run", default="@last")
@json_option
def mail(run: str, *, as_json: bool) -> None:
    """Show the letters that the agents of RUN wrote to each other, and what became of each."""
    with engine() as opened:
        letters = opened.history.mail(run)
    if as_json:
        click.echo(msgspec.json.encode(letters).decode())
    elif not letters:
        click.echo("nobody has written to anybody", err=True)
    for letter in () if as_json else letters:
        click.echo(f"{letter.id}  {letter.sender} to {letter.to}  {letter.priority}, {letter.state}")
        click.echo(f"    {text.one_line(letter.text, 200)}")
