"""Files that others wrote, read without following links: of a repository, or left by an agent or a check."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from corral.model.errors import BadRequest

FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MOST_LOOKED_AT = 1000  #: names in the folder; who leaves more is looked at in parts
LinkKind = Literal["hard link", "socket", "pipe", "device"]
LINK_KINDS: dict[int, LinkKind] = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


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


def plain_files(root: Path, folder: str, most: int) -> list[str]:
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


MOST_WATCHED = 50_000  #: files of one checkout; looking at more would take longer than most checks


MOST_TOUCHED = 5000


MORE = "..."  #: stands for all that are not listed


Mark = tuple[int, int, int, int, int]


Marks = Mapping[str, Mark | None]


def marks(tree: Path, names: Sequence[str]) -> Marks:
    """Return what tells whether a file was touched; the change time cannot be set back from within a box."""
    return {name: _mark(f"{tree}/{name}") for name in names[:MOST_WATCHED]}


def list_files(tree: Path, left_out: Callable[[str], bool]) -> set[str]:
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


class DangerousEntry(Struct, frozen=True):
    """Something dangerous that was dealt with: a hard link is a file of its own now, all else is gone."""

    path: Path
    kind: LinkKind


def dangerous_links(tree: Path) -> list[DangerousEntry]:
    """Deal with every dangerous entry of a tree in which nobody works; return what was found."""
    found: list[DangerousEntry] = []
    # By descriptor and without following links: what an earlier attempt left may try to lead us elsewhere.
    for folder, _, names, opened in os.fwalk(tree, follow_symlinks=False):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(name, dir_fd=opened, follow_symlinks=False)
                kind = LINK_KINDS.get(stat.S_IFMT(about.st_mode))
                if kind:
                    os.unlink(name, dir_fd=opened)
                elif stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                    kind = "hard link"
                    _copy_file(name, opened, about)
                if kind:
                    found.append(DangerousEntry(Path(folder, name), kind))
    return found


def _copy_file(name: str, folder: int, about: os.stat_result) -> None:
    """Put a copy of a file in its place, with its owner, mode and times."""
    fresh = f".corral-{os.getpid()}-{about.st_ino}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    with os.fdopen(reading, "rb") as source, os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        if os.getuid() == 0:
            os.fchown(target.fileno(), about.st_uid, about.st_gid)
        os.fchmod(target.fileno(), stat.S_IMODE(about.st_mode))
        os.utime(target.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
