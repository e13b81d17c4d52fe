"""Files of a repository, read without following a link anywhere on the way."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

from corral.model.errors import BadRequest

FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LinkRefused(BadRequest):
    """A file that a repository offers is a link, or lies behind one."""


def read(path: Path, most: int) -> bytes | None:
    """Return the first `most` bytes of a regular file; None if there is none. `path` is absolute.

    A link in any part of the path raises `Linked`; a pipe or a device is not waited for.
    """
    with _open_parent(path) as parent:
        return _read(parent, path, most) if parent is not None else None


def names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it is missing, a link or behind one."""
    try:
        with _open_parent(folder / "_") as place:
            if place is None:
                return []
            opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
            try:
                return sorted(os.listdir(opened))  # noqa: PTH208 -- of a descriptor
            finally:
                os.close(opened)
    except (LinkRefused, OSError):
        return []


def files(folder: Path, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files below a folder by their relative names; links and what lies behind them are left out."""
    for place, _, found in os.walk(folder, followlinks=False):
        for name in sorted(found):
            path = Path(place) / name
            with contextlib.suppress(LinkRefused):
                content = read(path, most)
                if content is not None:
                    yield str(path.relative_to(folder)), content


@contextlib.contextmanager
def _open_parent(path: Path) -> Generator[int | None]:
    """Open the folder of a path, part by part; None if it is not there."""
    place = os.open(path.anchor, FOLDER)
    try:
        for number, part in enumerate(path.parts[1:-1], 2):
            try:
                inner = os.open(part, FOLDER, dir_fd=place)
            except (OSError, ValueError):
                _refuse_link(place, part, Path(*path.parts[:number]))
                yield None
                return
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _read(parent: int, path: Path, most: int) -> bytes | None:
    try:
        opened = os.open(path.name, FILE, dir_fd=parent)
    except (OSError, ValueError):
        _refuse_link(parent, path.name, path)
        return None
    with os.fdopen(opened, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(opened).st_mode) else None


def _refuse_link(parent: int, name: str, path: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode):
            raise LinkRefused(
                f"{path} is a link, and files of a repository are not read through links",
                hint="replace the link by the file itself",
            )
