"""Patterns of paths: what each matches, which of two is more specific, and a path led down through those of a scope."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from msgspec import Struct

from corral.model import PathRules, Scope

WILD = re.compile(r"[*?\[]")
States = frozenset[int]
_NEW = "\x01"  #: a name that no pattern has in mind
_KEYS = ("read", "write", "readonly")


class Glob(Struct, frozen=True):
    """A pattern cut at its slashes. `**` stands for any number of parts, none included."""

    text: str
    parts: tuple[str, ...]
    excludes: bool = False
    folders_only: bool = False  #: as gitignore's `name/`

    @property
    def outside(self) -> bool:
        """Whether it speaks of the machine, not of the workspace."""
        return self.text.lstrip("!").startswith(("/", "~"))

    @property
    def prefix(self) -> str:
        """The literal beginning, in whole parts: the folder or file that holds all it can fit."""
        literal: list[str] = []
        for part in self.parts:
            if WILD.search(part):
                break
            literal.append(part)
        return "/".join(literal)

    @property
    def literal(self) -> bool:
        return not WILD.search("".join(self.parts[:-1]) if self.below else "".join(self.parts))

    @property
    def below(self) -> bool:
        return self.parts[-1:] == ("**",)

    @property
    def specificity(self) -> tuple[int, int]:
        """Characters before the first wildcard, a last `/**` not counted, then parts without one: the greater wins."""
        return _specificity(self.parts)

    # --- walking down a path, part by part: the same for one path and for a tree of a hundred thousand

    def start(self) -> States:
        return self._close_states({0})

    def step(self, states: States, name: str) -> States:
        """Return the places in the pattern after the step to `name`."""
        following: set[int] = set()
        for state in states:
            if state < len(self.parts):
                part = self.parts[state]
                if part == "**":
                    following.add(state)
                elif _matcher(part)(name):
                    following.add(state + 1)
        return self._close_states(following) if following else _NOWHERE

    def fits(self, states: States) -> bool:
        return len(self.parts) in states

    def fits_all_below(self, states: States) -> bool:
        return self.below and len(self.parts) - 1 in states

    def _close_states(self, states: set[int]) -> States:
        for state in sorted(states):
            following = state
            while following < len(self.parts) and self.parts[following] == "**":
                following += 1
                states.add(following)
        return frozenset(states)


_NOWHERE: States = frozenset()


@functools.cache
def _specificity(parts: tuple[str, ...]) -> tuple[int, int]:
    text = "/".join(parts[:-1] if parts[-1:] == ("**",) else parts)
    wild = WILD.search(text)
    return (wild.start() if wild else len(text), sum(not WILD.search(part) for part in parts))


@functools.cache
def _matcher(part: str) -> Callable[[str], object]:
    return re.compile(translate(part)).match if WILD.search(part) else part.__eq__


@functools.cache
def glob(text: str) -> Glob:
    """Read one pattern; one whose last part has no wildcard also means all below it.

    ValueError says why it is none.
    """
    excludes = text.startswith("!")
    body = text[1:] if excludes else text
    if not body.strip() or "\0" in body:
        raise ValueError("an empty pattern")
    parts = [part for part in body.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("`..` leads out of the workspace")
    if body.startswith("~") and parts[0] != "~":
        raise ValueError("only `~` itself stands for your home")
    if any(re.search(r"\[[^\]]*$", part) for part in parts):
        raise ValueError("a `[` that is never closed")
    if not parts:
        parts = ["**"]
    if not WILD.search(parts[-1]):
        parts.append("**")
    return Glob(text, _single(parts), excludes)


def _single(parts: Iterable[str]) -> tuple[str, ...]:
    """Drop a `**` that follows another: it adds nothing but states."""
    kept: list[str] = []
    for part in parts:
        if part != "**" or kept[-1:] != ["**"]:
            kept.append("**" if re.fullmatch(r"\*{2,}", part) else part)
    return tuple(kept)


def split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


# --- .agentignore, which is read as .gitignore is


def gitignore(text: str) -> list[Glob]:
    """Read gitignore's syntax; what is no pattern is left out, as git leaves it out."""
    found: list[Glob] = []
    for line in text.splitlines():
        pattern = re.sub(r"(?<!\\)\s+$", "", line).replace("\\ ", " ")
        if not pattern or pattern.startswith("#"):
            continue
        excludes = pattern.startswith("!")
        pattern = pattern[1:] if excludes else pattern.removeprefix("\\")
        folders_only = pattern.endswith("/")
        body = pattern.rstrip("/")
        parts = [part for part in body.split("/") if part]
        if not parts:
            continue
        if "/" not in body:
            parts.insert(0, "**")
        if parts[-1] == "**":
            parts.append("*")  # `x/**` is all in x, not x itself
        found.append(Glob(line, _single(parts), excludes, folders_only))
    return found


def is_ignored_here(globs: Sequence[Glob], states: Sequence[States], *, folder: bool) -> bool:
    """Tell whether gitignore would: the last that fits decides."""
    for one, state in zip(reversed(globs), reversed(states), strict=True):
        if one.fits(state) and (folder or not one.folders_only):
            return not one.excludes
    return False


def is_ignored(rules: Sequence[Glob], path: str, *, folder: bool = False) -> bool:
    """Tell whether the rules of a .gitignore leave out a file (or a folder), or a folder above it."""
    states = [each.start() for each in rules]
    parts = path.split("/")
    for place, name in enumerate(parts, 1):
        states = [each.step(state, name) for each, state in zip(rules, states, strict=True)]
        if is_ignored_here(rules, states, folder=folder or place < len(parts)):
            return True
    return False


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
        """Tell whether an unknown name might become writable here: one of each kind is tried."""
        parts = {part for layer in self._table.layers for part, _ in self._next_parts((*layer.read, *layer.write))}
        kinds = {
            _NEW,
            *(re.sub(r"\[!?(.)[^\]]*\]|[*?]+", lambda m: m[1] or _NEW, part) for part in parts if is_wild(part)),
        }
        return any(new.writable(below=True) or not new.is_settled() for new in map(self.enter, kinds)) or any(
            self.enter(kind, folder=False).writable() for kind in kinds
        )

    def names_in_patterns(self) -> dict[str, bool]:
        """Return the next names in patterns, and whether each can only be a folder."""
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
