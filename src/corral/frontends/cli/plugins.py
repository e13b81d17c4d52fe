"""`plugins`: what other packages bring."""

from __future__ import annotations

import click
import msgspec

from corral.engine.plugins import list_plugins
from corral.frontends import safe_text
from corral.frontends.cli.look import json_option

NONE = "no plug-in is installed; a package brings one by the entry points corral.agents or corral.scorers"


@click.group()
def plugins() -> None:
    """List installed plug-ins: agents and scorers of other packages."""


@plugins.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List plug-ins, and why one cannot be loaded."""
    found = list_plugins()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found:
        click.echo(NONE, err=True)
    else:
        rows = [
            (each.kind, each.name, f"{each.package or '-'} {each.version or ''}".strip(), each.problem or each.object)
            for each in found
        ]
        click.echo("\n".join(safe_text.table(("KIND", "NAME", "PACKAGE", "OBJECT, OR WHAT IS WRONG"), rows)))
