"""A path on the way down through a scope's patterns: cheap enough for every file of a large tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.model import PathRules, Scope
from corral.rules.scope.globs import WILD, Glob, States, gitignore, glob, is_ignored_here, split

_NEW = "\x01"  #: a name that no pattern has in mind
_KEYS = ("read", "write", "readonly")


class _RuleLayer(Struct, frozen=True):
    """One set of rules; each pattern by its number, the most specific first."""

    read: tuple[int, ...]
    write: tuple[int, ...]
    readonly: tuple[int, ...]


class _PatternTable:
    """All patterns of a scope about the workspace, or about the machine."""

    def __init__(self, scope: Scope, *, outside: bool, ignore: Sequence[Glob]) -> None:
        self.ignore = ignore
        self.globs: list[Glob] = []
        self.layers: list[_RuleLayer] = []
        for rules in (scope, *scope.bounds):
            lists = {key: self._add(getattr(rules, key), outside=outside) for key in _KEYS}
            if outside:  # there, what may be written may be read: nobody names it twice
                lists["read"] = self._order((*lists["write"], *lists["readonly"], *lists["read"]))
            self.layers.append(_RuleLayer(**lists))

    def _add(self, patterns: Iterable[str], *, outside: bool) -> tuple[int, ...]:
        first = len(self.globs)
        self.globs += [one for one in map(glob, patterns) if one.outside is outside]
        return self._order(range(first, len(self.globs)))

    def _order(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Put the most specific first; of equals, the last named."""
        return tuple(sorted(numbers, key=lambda number: (self.globs[number].specificity, number), reverse=True))


class MatchedPath:
    """A path: what holds for it and, once that cannot change any more, for all below it."""

    __slots__ = ("_ignored", "_ignoring", "_states", "_table")

    def __init__(
        self, table: _PatternTable, states: Sequence[States], ignoring: Sequence[States] = (), *, ignored: bool = False
    ) -> None:
        self._table, self._states, self._ignoring, self._ignored = table, states, ignoring, ignored

    def enter(self, name: str, *, folder: bool = True) -> MatchedPath:
        table = self._table
        states = [one.step(at, name) if at else at for one, at in zip(table.globs, self._states, strict=True)]
        if not table.ignore:
            return MatchedPath(table, states)
        ignoring = [one.step(at, name) if at else at for one, at in zip(table.ignore, self._ignoring, strict=True)]
        ignored = self._ignored or is_ignored_here(table.ignore, ignoring, folder=folder)
        return MatchedPath(table, states, ignoring, ignored=ignored)

    def is_settled(self) -> bool:
        """Tell whether all below is alike: no pattern can begin to fit any more, or cease to."""
        if self._ignored:
            return True
        pairs = zip(self._table.ignore, self._ignoring, strict=True)
        if any(state < len(one.parts) for one, at in pairs for state in at):
            return False
        return all(
            one.fits_all_below(at) or not any(state < len(one.parts) for state in at)
            for one, at in zip(self._table.globs, self._states, strict=True)
        )

    def names_open(self) -> bool:
        """Tell whether a name nobody can foresee might become writable here: one of each kind is tried."""
        parts = {part for layer in self._table.layers for part, _ in self._next_parts((*layer.read, *layer.write))}
        kinds = {
            _NEW,
            *(re.sub(r"\[!?(.)[^\]]*\]|[*?]+", lambda m: m[1] or _NEW, part) for part in parts if is_wild(part)),
        }
        return any(new.writable(below=True) or not new.is_settled() for new in map(self.enter, kinds)) or any(
            self.enter(kind, folder=False).writable() for kind in kinds
        )

    def names_in_patterns(self) -> dict[str, bool]:
        """Return the names that patterns go on with, and whether each can only be a folder."""
        found: dict[str, bool] = {}
        for layer in self._table.layers:
            for part, folder in self._next_parts((*layer.read, *layer.write)):
                if not is_wild(part):
                    found[part] = found.get(part, True) and folder
        return found

    def _next_parts(self, numbers: Iterable[int]) -> Iterable[tuple[str, bool]]:
        for number in numbers:
            one = self._table.globs[number]
            for state in self._states[number] if not one.excludes else ():
                if state < len(one.parts):
                    rest = one.parts[state + 1 :]
                    yield one.parts[state], bool(rest) and (rest != ("**",) or one.text.endswith(("/**", "/")))

    def readable(self, *, below: bool = False) -> bool:
        return not self._ignored and all(
            self._says(layer.read, below=below) is not None for layer in self._table.layers
        )

    def writable(self, *, below: bool = False) -> bool:
        """Tell whether it may be written: by every layer, and only where it may be read."""
        if self._ignored:
            return False
        for layer in self._table.layers:
            found = self._says(layer.write, below=below)
            if found is None or self._says(layer.read, below=below) is None:
                return False
            kept = self._says(layer.readonly, below=below)
            if kept is not None and kept.specificity >= found.specificity:
                return False
        return True

    def _says(self, numbers: Iterable[int], *, below: bool) -> Glob | None:
        """Return the most specific that fits, unless it excludes."""
        for number in numbers:
            one, at = self._table.globs[number], self._states[number]
            if at and (one.fits_all_below(at) if below else one.fits(at)):
                return None if one.excludes else one
        return None


def top(scope: Scope, *, outside: bool = False, ignore: str = "") -> MatchedPath:
    """Return the workspace's own folder, with what an .agentignore hides in it, or the machine's root."""
    table = _PatternTable(scope, outside=outside, ignore=gitignore(ignore))
    return MatchedPath(table, [one.start() for one in table.globs], [one.start() for one in table.ignore])


def place_of(scope: Scope, path: str) -> MatchedPath:
    place = top(scope, outside=path.startswith("/"))
    for part in split(path):
        place = place.enter(part)
    return place


def readable(scope: Scope, path: str) -> bool:
    """Tell whether a path, of the workspace or absolute, may be read."""
    return place_of(scope, path).readable()


def writable(scope: Scope, path: str) -> bool:
    """Tell whether a path, of the workspace or absolute, may be written."""
    return place_of(scope, path).writable()


def is_wild(part: str) -> bool:
    return bool(WILD.search(part))


def rules_of(scope: Scope) -> PathRules:
    return PathRules(read=scope.read, write=scope.write, readonly=scope.readonly)
