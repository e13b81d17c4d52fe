"""Patterns of paths: what each fits, which of two is the more specific, and gitignore's own way of reading them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from msgspec import Struct

WILD = re.compile(r"[*?\[]")

States = frozenset[int]


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
        """Return where in the pattern one can stand after going on to `name`."""
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


def is_ignored(rules: Sequence[Glob], path: str) -> bool:
    """Tell whether the rules of a .gitignore leave out a file, or a folder above it."""
    states = [each.start() for each in rules]
    parts = path.split("/")
    for place, name in enumerate(parts, 1):
        states = [each.step(state, name) for each, state in zip(rules, states, strict=True)]
        if is_ignored_here(rules, states, folder=place < len(parts)):
            return True
    return False
