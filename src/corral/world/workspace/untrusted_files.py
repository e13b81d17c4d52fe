"""Files that an agent leaves in its HOME for us to take: it may have prepared the folder, so no link is followed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path

MOST_LOOKED_AT = 1000  #: names in the folder; who leaves more is looked at in parts


def _open(root: Path, name: str) -> int | None:
    """Open a folder below `root`, step by step; None if there is none."""
    place: int | None = None
    for part in (root, *Path(name).parts):
        outer = place
        try:
            place = os.open(part, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
        except OSError:
            place = None
        if outer is not None:
            os.close(outer)
        if place is None:
            return None
    return place


@contextlib.contextmanager
def _folder(root: Path, name: str) -> Generator[int | None]:
    place = _open(root, name)
    try:
        yield place
    finally:
        if place is not None:
            os.close(place)


def left(root: Path, folder: str, most: int) -> list[str]:
    """Return the names of plain files in a folder below `root`, sorted; none if there is no such folder."""
    with _folder(root, folder) as place:
        if place is None:
            return []
        found: list[str] = []
        with os.scandir(place) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST_LOOKED_AT:
                    break
                if entry.is_file(follow_symlinks=False):
                    found.append(entry.name)
        return sorted(found)[:most]


def age_seconds(root: Path, folder: str, name: str) -> float:
    """Return how long ago a file was written; 0 if it is not there."""
    with _folder(root, folder) as place:
        if place is None:
            return 0.0
        try:
            return time.time() - os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0


def take_away(root: Path, folder: str, name: str) -> None:
    """Remove a file below `root`."""
    with _folder(root, folder) as place, contextlib.suppress(OSError):
        if place is not None:
            os.unlink(name, dir_fd=place)
