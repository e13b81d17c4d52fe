"""`plugins`: what other packages bring."""

from __future__ import annotations

from importlib import metadata

import click
import msgspec
from msgspec import Struct

from corral.frontends import text
from corral.frontends.cli.look import json_option

#: Entry point group -> what a plug-in of it is.
GROUPS = {
    "corral.agents": "agent",
    "corral.check_readers": "check reader",
    "corral.notifiers": "notifier",
    "corral.scorers": "scorer",
    "corral.tools": "tool",
}
NONE = f"no plug-in is installed; a package brings one by the entry points {', '.join(GROUPS)}"


class Plugin(Struct, frozen=True, kw_only=True):
    """One plug-in, and whether it can be loaded."""

    kind: str
    name: str
    package: str | None
    version: str | None
    object: str  #: as the package names it
    problem: str | None  #: why it cannot be loaded


def list_plugins() -> list[Plugin]:
    """Return what is installed, by kind and name; each is loaded once to see whether that works."""
    found = [
        Plugin(
            kind=kind,
            name=point.name,
            package=point.dist.name if point.dist else None,
            version=point.dist.version if point.dist else None,
            object=point.value,
            problem=_problem(point),
        )
        for group, kind in GROUPS.items()
        for point in metadata.entry_points(group=group)
    ]
    return sorted(found, key=lambda plugin: (plugin.kind, plugin.name))


def _problem(point: metadata.EntryPoint) -> str | None:
    try:
        point.load()
    except Exception as error:  # noqa: BLE001 -- code of others
        return f"{type(error).__name__}: {error}"
    return None


@click.group()
def plugins() -> None:
    """List installed plug-ins: agents, check readers, notification channels, scorers and tools of other packages."""


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
        click.echo("\n".join(text.table(("KIND", "NAME", "PACKAGE", "OBJECT, OR WHAT IS WRONG"), rows)))
