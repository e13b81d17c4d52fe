"""What lies among a repository's objects for a moment: locked while in use, removed when its holder was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from pathlib import Path

MARK = b"corral takes this in\n"  #: in the .keep of a pack
TRIES = 20


@contextlib.contextmanager
def folder(objects: Path) -> Generator[Path]:
    """Lend a new folder among a repository's objects."""
    for _ in range(TRIES):
        place = objects / f"corral-{secrets.token_hex(6)}"
        place.mkdir(mode=0o700)
        descriptor = _open_locked(place, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX)
        if descriptor is None:
            continue  # another corral took it for one that was left
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
        return
    raise OSError(f"no folder can be made in {objects}")


@contextlib.contextmanager
def mark(file: Path) -> Generator[Path]:
    """Lay a .keep beside a pack for a while; several may need it, and the last of them removes it."""
    for _ in range(TRIES):
        descriptor = _open_locked(file, os.O_RDWR | os.O_CREAT, fcntl.LOCK_SH)
        if descriptor is None:
            continue
        try:
            os.pwrite(descriptor, MARK, 0)
            yield file
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink(missing_ok=True)
            os.close(descriptor)
        return
    raise OSError(f"{file} cannot be made")


def remove(objects: Path) -> None:
    """Remove what a corral left that was killed: nobody holds it."""
    for place in objects.glob("corral-*"):
        descriptor = _open_locked(place, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
    for file in objects.glob("pack/*.keep"):
        descriptor = _open_locked(file, os.O_RDONLY, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                if os.pread(descriptor, len(MARK) + 1, 0) == MARK:
                    file.unlink()
            os.close(descriptor)


def _open_locked(path: Path, flags: int, how: int) -> int | None:
    """Open a file or folder and hold a lock on it; None where it was removed meanwhile, or is held by others."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError:
        if flags & os.O_CREAT:
            raise
        return None
    try:
        fcntl.flock(descriptor, how)
        about, there = os.fstat(descriptor), path.lstat()
        if (there.st_dev, there.st_ino) == (about.st_dev, about.st_ino):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # a disk without such locks: nothing is taken for left there
        if not how & fcntl.LOCK_NB:
            return descriptor
    os.close(descriptor)
    return None
