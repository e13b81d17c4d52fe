"""What to mount over a folder so that it shows what its patterns allow: the fewest places that do it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

Mode = Literal["hidden", "readonly", "writable"]


class ScopePath(Protocol):
    """A path on its way down through the patterns of a scope."""

    def enter(self, name: str, *, folder: bool = True) -> ScopePath: ...
    def is_settled(self) -> bool: ...
    def readable(self, *, below: bool = False) -> bool: ...
    def writable(self, *, below: bool = False) -> bool: ...
    def names_open(self) -> bool: ...
    def names_in_patterns(self) -> Mapping[str, bool]: ...


class Mask(Struct, frozen=True):
    """A path that is shown otherwise than the folder it lies in."""

    path: Path
    mode: Mode
    folder: bool


class TooManyEntries(Exception):
    """More entries to look through than is worth it."""


class Masks:
    """Walks a tree, only where its patterns are not yet settled."""

    def __init__(self, most_entries: int) -> None:
        self.found: list[Mask] = []
        self.missing: list[Path] = []  #: folders to be made, so that there is something to write in
        self._left = most_entries

    def workspace(self, tree: Path, place: ScopePath) -> None:
        """Find masks for a checkout, which is shown writable; its .git is the engine's affair."""
        self._walk(tree, place, "writable", inside=True)
        if any(mask.path == tree for mask in self.found):
            self.found.append(Mask(tree / ".git", "writable", folder=True))

    def elsewhere(self, path: Path, place: ScopePath) -> None:
        """Find what of an absolute path is to be shown; nothing of it is by itself."""
        if path.is_dir():
            self._walk(path, place, "hidden", inside=False)
        elif place.readable():
            self.found.append(Mask(path, _mode(place), folder=False))

    def _walk(self, start: Path, first: ScopePath, shown: Mode, *, inside: bool) -> None:
        waiting: list[tuple[str, ScopePath, Mode]] = [(str(start), first, shown)]
        while waiting:
            path, place, outer = waiting.pop()
            if place.is_settled():
                self._add(path, _mode(place, below=True), outer, folder=True)
                continue
            try:
                with os.scandir(path) as listed:
                    entries = [entry for entry in listed if entry.name != ".git" or path != str(start)]
            except FileNotFoundError:  # it is yet to be made
                entries = []
            except OSError:  # nobody can tell what is in it
                self._add(path, "hidden", outer, folder=True)
                continue
            self._left -= len(entries)
            if self._left < 0:
                raise TooManyEntries
            new = _new_names(place, {entry.name for entry in entries}) if inside else {}
            own = _own(place, new, inside=inside)
            self._add(path, own, outer, folder=True)
            for name in (name for name, folder in new.items() if folder):
                self.missing.append(Path(path) / name)
                waiting.append((f"{path}/{name}", place.enter(name), own))
            for entry in entries:
                if entry.is_symlink():  # leads to what is looked at where it lies, or is not shown at all
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, place.enter(entry.name), own))
                else:
                    self._add(entry.path, _mode(place.enter(entry.name, folder=False)), own, folder=False)

    def _add(self, path: str, mode: Mode, outer: Mode, *, folder: bool) -> None:
        if mode != outer:
            self.found.append(Mask(Path(path), mode, folder))


def _new_names(place: ScopePath, there: set[str]) -> dict[str, bool]:
    """Return the names that are not there yet and could be written, and whether each can only be a folder."""
    return {
        name: folder
        for name, folder in place.names_in_patterns().items()
        if name not in there and _may_be_writable(place.enter(name))
    }


def _own(place: ScopePath, new: Mapping[str, bool], *, inside: bool) -> Mode:
    """Decide how a folder itself is shown, in which not all is alike; a checkout's folders are always seen."""
    if not inside:
        return _mode(place, below=True)
    grows = place.names_open() or not all(new.values())
    return "writable" if grows or place.writable(below=True) else "readonly"


def _may_be_writable(place: ScopePath) -> bool:
    return not place.is_settled() or place.writable(below=True)


def _mode(place: ScopePath, *, below: bool = False) -> Mode:
    if not place.readable(below=below):
        return "hidden"
    return "writable" if place.writable(below=below) else "readonly"
