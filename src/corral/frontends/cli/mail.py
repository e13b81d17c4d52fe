"""`mail`: what the agents of a run wrote to each other."""

from __future__ import annotations

import click
import msgspec

from corral.frontends import text
from corral.frontends.cli.look import engine, json_option, run_argument


@click.command()
@run_argument
@json_option
def mail(run: str, *, as_json: bool) -> None:
    """Show the messages between the agents of RUN, and the state of each."""
    with engine() as opened:
        messages = opened.history.mail(run)
    if as_json:
        click.echo(msgspec.json.encode(messages).decode())
    elif not messages:
        click.echo("nobody has written to anybody", err=True)
    for message in () if as_json else messages:
        click.echo(f"{message.id}  {message.sender} to {message.to}  {message.priority}, {message.state}")
        click.echo(f"    {text.one_line(message.text, 200)}")
