"""Ask a user whether a repository's settings may start programs: what is shown is what is trusted."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from corral.config import paths
from corral.engine.engine import Engine
from corral.frontends import text


def ask_for_trust(engine: Engine, file: Path) -> None:
    """Show the file, ask on a terminal, and remember the very bytes that were shown."""
    content = paths.read_settings(file)
    for line in content.decode(errors="replace").splitlines():
        click.echo(f"  {text.printable(line)}", err=True)
    started, whole = engine.settings.started_files(file, content)
    if started:
        click.echo("It starts these files of the repository, which are trusted as they are now:", err=True)
        for name in started:
            click.echo(f"  {text.printable(name)}", err=True)
    if not whole:
        click.echo("There is more than Corral looks at: files that are not in this list can change unasked.", err=True)
    if sys.stdin.isatty():
        click.confirm(f"May {file} start programs on this machine?", abort=True, err=True)
    engine.settings.trust(file, content)
