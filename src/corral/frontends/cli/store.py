"""`store`: where runs are kept."""

from __future__ import annotations

import click
import msgspec

from corral.frontends.cli.look import engine, json_option


@click.group()
def store() -> None:
    """Check the store: soundness, version, size."""


@store.command()
@json_option
def check(*, as_json: bool) -> int:
    """Look through the whole store. Exit 1 if it is not sound."""
    with engine() as opened:
        found = opened.store_report()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(f"store    {found.where} ({found.kind}{'' if found.writable else ', read-only'})")
        click.echo(f"sound    {'yes' if found.sound else found.problem}")
        click.echo(f"schema   {found.schema}")
        click.echo(f"size     {found.bytes / 1e6:.1f} MB")
        click.echo(f"holds    {found.runs} runs, {found.attempts} attempts, {found.events} events")
        if not found.sound:
            click.echo("hint: save what can be read: corral export > backup.jsonl; then move the file away", err=True)
    return 0 if found.sound else 1
