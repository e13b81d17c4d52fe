"""Ask a person whether a repository's settings may start programs: what is shown is what is trusted."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from corral.engine.engine import Engine
from corral.frontends.cli import words


def ask_for_trust(engine: Engine, file: Path) -> None:
    """Show the file, ask on a terminal, and remember the very bytes that were shown."""
    content = file.read_bytes()
    for line in content.decode(errors="replace").splitlines():
        click.echo(f"  {words.printable(line)}", err=True)
    if sys.stdin.isatty():
        click.confirm(f"May {file} start programs on this machine?", abort=True, err=True)
    engine.settings.trust(file, content)
