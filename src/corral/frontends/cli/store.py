"""`store`: where runs are kept."""

from __future__ import annotations

import click
import msgspec

from corral.frontends.cli.look import engine, json_option


@click.group()
def store() -> None:
    """Check the store, or copy it to another database."""


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


@store.command()
@click.option("--to", "to", required=True, metavar="URL", help="postgresql://USER@HOST/DATABASE or sqlite:///FOLDER.")
def copy(*, to: str) -> int:
    """Copy everything to an empty store. Exit 2 if it is not empty."""
    with engine() as opened:
        opened.copy_store(to, lambda line: click.echo(line, err=True))
    click.echo("copied; to use it: set CORRAL_STORE, or [store] url in config.toml", err=True)
    return 0
