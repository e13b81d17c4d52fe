"""Files of a checkout that a program changed, removed, added or made of another mode while it ran."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MOST_WATCHED = 50_000  #: files of one checkout; looking at more would take longer than most checks
MOST_TOUCHED = 5000
MORE = "..."  #: stands for all that are not listed

Mark = tuple[int, int, int, int, int]
Marks = Mapping[str, Mark | None]


def marks(tree: Path, names: Sequence[str]) -> Marks:
    """Return what tells whether a file was touched; the change time cannot be set back from within a box."""
    return {name: _mark(f"{tree}/{name}") for name in names[:MOST_WATCHED]}


def listed(tree: Path, left_out: Callable[[str], bool]) -> set[str]:
    """Return the files of a checkout as it is now; folders by these names are not looked into."""
    found: set[str] = set()
    for folder, below, names in os.walk(tree):
        below[:] = [each for each in below if not left_out(each)]
        start = os.path.relpath(folder, tree)
        found.update(name if start == "." else f"{start}/{name}" for name in names)
        if len(found) > MOST_WATCHED:
            break
    return found


def _mark(path: str) -> Mark | None:
    try:
        about = os.lstat(path)
    except (OSError, ValueError):
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_mode


def between(before: Marks, after: Marks) -> tuple[str, ...]:
    """Return the paths that were touched between two looks; those that are gone or of another mode say so."""
    found = [_words(name, old, after.get(name)) for name, old in before.items() if old and after.get(name) != old]
    text = [os.fsencode(each).decode(errors="replace") for each in found]
    return tuple(text[:MOST_TOUCHED]) + ((MORE,) if len(text) > MOST_TOUCHED else ())


def _words(name: str, old: Mark, new: Mark | None) -> str:
    if new is None:
        return f"{name} (removed)"
    return f"{name} (mode)" if stat.S_IMODE(old[4]) != stat.S_IMODE(new[4]) or old[4] != new[4] else name
