"""What `--explain-scope` shows: each value that holds, and who said so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.model import Scope
from corral.rules.scope.scope import LIMITS, PATHS, EffectiveScope

UNITS = {"memory_mb": "MB", "disk_mb": "MB", "file_mb": "MB", "cpu_seconds": "s", "processes": ""}


class ScopeRow(Struct, frozen=True):
    """One key of the scope: what holds, and where each word of it stands, the last to speak first."""

    key: str
    value: str
    origins: tuple[str, ...]


class ScopeExplanation(Struct, frozen=True):
    rows: tuple[ScopeRow, ...]
    shown: tuple[tuple[str, str], ...] = ()  #: paths outside the workspace, or masked in it: (mode, path)
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Lay it out for a person."""
        width = max(len(row.key) for row in self.rows)
        wide = min(max(len(row.value) for row in self.rows), 60)
        told = [f"{row.key:<{width}}  {row.value:<{wide}}  {', '.join(row.origins)}".rstrip() for row in self.rows]
        told += [f"{mode:<{width}}  {path}" for mode, path in self.shown]
        return [*told, *(f"note: {note}" for note in self.notes)]


def explain(
    found: EffectiveScope, shown: Iterable[tuple[str, str]] = (), notes: Sequence[str] = ()
) -> ScopeExplanation:
    """Tell the effective scope; `shown` and `notes` are what the file system made of it."""
    scope = found.scope
    values = {key: _paths(scope, key) for key in PATHS}
    values["env"] = ", ".join(scope.env) or "nothing but what the agent needs"
    values["net"] = _net(scope)
    for key in LIMITS:
        limit = getattr(scope, key)
        values[key] = "no limit" if limit is None else f"{limit} {UNITS[key]}".strip()
    seconds = scope.timeout_seconds
    values["timeout"] = "as the task's" if seconds is None else f"{seconds:g} s"
    rows = tuple(ScopeRow(key, value, found.origins[key]) for key, value in values.items())
    return ScopeExplanation(rows, tuple(shown), tuple(notes))


def _paths(scope: Scope, key: str) -> str:
    """Name the patterns; those of an outer scope hold as well, unless they say nothing."""
    own: tuple[str, ...] = getattr(scope, key)
    words = [" ".join(own) or "nothing"]
    for rules in scope.bounds:
        outer: tuple[str, ...] = getattr(rules, key)
        if outer != own and (key != "readonly" or outer):
            words.append(" ".join(outer) or "nothing")
    words = [word for word in dict.fromkeys(words) if word != "**"] or ["**"]
    return (" and " if key == "readonly" else " within ").join(words)


def _net(scope: Scope) -> str:
    if isinstance(scope.net, str):
        return {"off": "off: the agent's own provider alone", "on": "on: every host"}[scope.net]
    return ", ".join(("the agent's own provider", *scope.net))
