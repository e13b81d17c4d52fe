"""`corral editors`: configuration of editors, printed or written."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from corral.engine.editors import NAMES, EditorReport, report, write
from corral.frontends import text
from corral.frontends.cli.look import json_option
from corral.model.errors import BadRequest


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--write", "writes", is_flag=True, help="Write the files, merged into what is there, with a backup.")
@click.option("--repo", default=".", metavar="DIR", help="Repository of the files that belong to one.  [default: .]")
@json_option
def editors(*, name: str | None, writes: bool, repo: str, as_json: bool) -> None:
    """Print the configuration of an editor for Corral, with this machine's path, or write it.

    NAME is vscode, neovim, jetbrains, zed, emacs, cursor, sublime or vim. Without NAME, list them.
    """
    folder = Path(repo)
    if not folder.is_dir():
        raise BadRequest(f"{repo}: there is no such folder", hint="name a repository with --repo DIR")
    if name is None:
        _list(folder, writes=writes, as_json=as_json)
        return
    found = write(name, folder) if writes else report(name, folder)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif writes:
        _show_written(found)
    else:
        _show_content(found)


def _list(folder: Path, *, writes: bool, as_json: bool) -> None:
    if writes:
        raise BadRequest("--write takes the name of an editor", hint=f"one of {', '.join(NAMES)}")
    found = [report(name, folder) for name in NAMES]
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    rows = [(each.editor, _summary(each), each.what) for each in found]
    click.echo("\n".join(text.table(("EDITOR", "STATE", "WHAT CORRAL ADDS"), rows)))
    click.echo("next     corral editors NAME --write", err=True)


def _summary(found: EditorReport) -> str:
    states = {each.state for each in found.files}
    if states == {"current"}:
        return "set up"
    return "partly" if "current" in states else "not set up"


def _show_written(found: EditorReport) -> None:
    for file in found.files:
        click.echo(f"{file.state:<10} {file.path}")
        if file.backup:
            click.echo(f"{'backup':<10} {file.backup}")
    for note in found.notes:
        click.echo(note, err=True)


def _show_content(found: EditorReport) -> None:
    """Print what belongs into the files; one file alone is printed bare, so that it can be sent somewhere."""
    if len(found.files) == 1:
        click.echo(f"file     {found.files[0].path}", err=True)
        click.echo(found.files[0].content, nl=False)
    else:
        click.echo("\n".join(f"# {file.path}\n{file.content}" for file in found.files), nl=False)
    for note in found.notes:
        click.echo(note, err=True)
    click.echo(f"next     corral editors {found.editor} --write", err=True)
