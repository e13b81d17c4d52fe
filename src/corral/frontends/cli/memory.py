"""`memory`: what agents read about a repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from corral.engine.memory import FactView
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest

NONE = 'nothing is remembered of this repository; add a fact: corral memory add "tests need `make db` first"'
repo_option = click.option("--repo", metavar="DIR", default=".", help="Repository, or a folder in it.  [default: .]")
file_option = click.option("--file", "files", multiple=True, metavar="GLOB", help="Files it is about; repeatable.")


@click.group()
def memory() -> None:
    """Show, add, approve and remove what agents read about a repository.

    No agent reads a proposed fact until you approve it.
    """


@memory.command("ls")
@repo_option
@click.option("--proposed", is_flag=True, help="Only facts that wait for your approval.")
@click.option("--stale", is_flag=True, help="Only facts that something speaks against.")
@json_option
def list_(repo: str, *, proposed: bool, stale: bool, as_json: bool) -> None:
    """List the facts of a repository, oldest first."""
    with engine() as opened:
        facts = asyncio.run(opened.memory.facts(Path(repo)))
    chosen = [fact for fact in facts if (not proposed or fact.state == "proposed") and (not stale or fact.stale)]
    _print(chosen, as_json=as_json, none="no fact fits" if facts else NONE)


@memory.command()
@click.argument("fact")
@repo_option
@json_option
def show(fact: str, repo: str, *, as_json: bool) -> None:
    """Show one fact: its words, where it comes from, and how often it was used."""
    with engine() as opened:
        found = asyncio.run(opened.memory.fact(Path(repo), fact))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo(found.text)
    click.echo(f"state    {_state(found)}")
    click.echo(f"source   {found.source}, {text.age(found.created)} ago")
    if found.files:
        click.echo(f"files    {text.printable(', '.join(found.files))}")
    last = f", last {text.age(found.last_used)} ago" if found.last_used else ""
    click.echo(f"used     {found.used} times{last}; confirmed {found.confirmed} times")


@memory.command()
@click.argument("text")
@file_option
@repo_option
@json_option
def add(text: str, files: tuple[str, ...], repo: str, *, as_json: bool) -> None:
    """Add a fact: one sentence that helps every agent in this repository."""
    with engine() as opened:
        _print([asyncio.run(opened.memory.add(Path(repo), text, files))], as_json=as_json)


@memory.command()
@click.argument("words", nargs=-1, required=True)
@repo_option
@json_option
def search(words: tuple[str, ...], repo: str, *, as_json: bool) -> None:
    """Search facts by words, best match first."""
    with engine() as opened:
        found = asyncio.run(opened.memory.search(Path(repo), " ".join(words)))
    _print(found, as_json=as_json, none="no fact has any of these words")


@memory.command()
@click.argument("fact")
@click.option("--text", help="New words.")
@file_option
@repo_option
@json_option
def edit(fact: str, text: str | None, files: tuple[str, ...], repo: str, *, as_json: bool) -> None:
    """Change the words of a fact, or the files it is about."""
    if text is None and not files:
        raise BadRequest("nothing to change was given", hint="corral memory edit FACT --text TEXT, or --file GLOB")
    with engine() as opened:
        _print([asyncio.run(opened.memory.edit(Path(repo), fact, text, files or None))], as_json=as_json)


@memory.command()
@click.argument("facts", nargs=-1, required=True)
@repo_option
@json_option
def approve(facts: tuple[str, ...], repo: str, *, as_json: bool) -> None:
    """Approve facts that agents proposed: from now on they are part of prompts."""
    with engine() as opened:
        _print(asyncio.run(opened.memory.approve(Path(repo), facts)), as_json=as_json)


@memory.command()
@click.argument("facts", nargs=-1)
@click.option("--stale", is_flag=True, help="Remove every fact that something speaks against.")
@repo_option
@json_option
def rm(facts: tuple[str, ...], repo: str, *, stale: bool, as_json: bool) -> None:
    """Remove facts."""
    if bool(facts) == stale:
        raise BadRequest("name the facts to remove, or say --stale", hint="see `corral memory ls`")
    with engine() as opened:
        named = opened.memory.remove_stale(Path(repo)) if stale else opened.memory.remove(Path(repo), facts)
        removed = [fact.id for fact in asyncio.run(named)]
    click.echo(
        msgspec.json.encode({"removed": removed}).decode() if as_json else f"removed  {', '.join(removed) or '-'}"
    )


def _print(facts: Sequence[FactView], *, as_json: bool, none: str = "") -> None:
    if as_json:
        click.echo(msgspec.json.encode(facts).decode())
    elif not facts:
        click.echo(none, err=True)
    else:
        rows = [(fact.id, _state(fact), str(fact.used), fact.source, _words(fact)) for fact in facts]
        click.echo("\n".join(text.table(("FACT", "STATE", "USED", "SOURCE", "TEXT"), rows)))


def _state(fact: FactView) -> str:
    return f"stale: {fact.stale}" if fact.stale else fact.state


def _words(fact: FactView) -> str:
    return fact.text + (f" [{', '.join(fact.files)}]" if fact.files else "")
