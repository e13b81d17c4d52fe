"""Plug-ins that other packages bring: agents and scorers, by entry points."""

from __future__ import annotations

from importlib import metadata

from msgspec import Struct

#: Entry point group -> what a plug-in of it is.
GROUPS = {"corral.agents": "agent", "corral.scorers": "scorer"}


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
