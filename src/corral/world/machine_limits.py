"""Limits of this process or machine that were reached: open files, memory, processes, file size."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from pathlib import Path

from corral.model.errors import OutOfResources

FILES, MEMORY, PROCESSES, SIZE = "open files", "memory", "processes or threads", "file size"
LEAST_BLOCKS = 16  #: a disk with fewer is full
FEW_BLOCKS = 4096  #: one with fewer may have been full a moment ago: who fails to write removes what it wrote
_FULL = ("No space left", "Out of diskspace", "unable to write")
_UNWRITTEN = re.compile(r"couldn't write '([^']+)'")
NEAR = 64 << 10  #: bytes that one write may add to a file

_BY_NUMBER = {
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
    errno.ENOMEM: MEMORY,
    errno.EAGAIN: PROCESSES,
    errno.EFBIG: SIZE,
}
_BY_WORDS = {
    "too many open files": FILES,
    "cannot allocate memory": MEMORY,
    "out of memory": MEMORY,
    "can't start new thread": PROCESSES,
    "cannot fork": PROCESSES,
    "fork: retry: resource temporarily unavailable": PROCESSES,
    "failed to map segment from shared object": MEMORY,
    "file too large": SIZE,
}
_LIMITS = {
    FILES: (resource.RLIMIT_NOFILE, "ulimit -n"),
    MEMORY: (resource.RLIMIT_AS, "ulimit -v"),
    PROCESSES: (resource.RLIMIT_NPROC, "ulimit -u"),
    SIZE: (resource.RLIMIT_FSIZE, "ulimit -f"),
}


def of(error: BaseException) -> OutOfResources | None:
    """Return what ran out, if that is the cause of an error."""
    if isinstance(error, OutOfResources):
        return error
    if isinstance(error, MemoryError):
        return _limit_error(MEMORY)
    if isinstance(error, OSError) and error.errno in _BY_NUMBER and not isinstance(error, BlockingIOError):
        return _limit_error(_BY_NUMBER[error.errno])
    return in_words(str(error))


def in_words(text: str) -> OutOfResources | None:
    """Return what ran out, as a program or a library says it."""
    found = next((what for words, what in _BY_WORDS.items() if words in text.lower()), None)
    return _limit_error(found) if found else None


def is_disk_full(words: str) -> bool:
    """Tell whether git or the system say that a disk is full; of a file that could not be written, look."""
    if any(sign in words for sign in _FULL):
        return True
    unwritten = _UNWRITTEN.search(words)
    return unwritten is not None and has_no_room(Path(unwritten[1]).parent)


def has_no_room(folder: Path, least_blocks: int = LEAST_BLOCKS) -> bool:
    """Tell whether the disk of a folder has fewer blocks left, or no further file."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail < least_blocks or (disk.f_files > 0 and disk.f_favail == 0)


def of_file(path: Path, size: int) -> OutOfResources | None:
    """Return what keeps a file of this size from growing, or any file from being opened; None if nothing does."""
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if allowed != resource.RLIM_INFINITY and size + NEAR > allowed:
        return _limit_error(SIZE)
    try:
        os.close(os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return of(error) if error.errno in (errno.EMFILE, errno.ENFILE) else None
    return None


def _limit_error(what: str) -> OutOfResources:
    if what == PROCESSES and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        what = MEMORY  # a thread that finds no room for its stack is refused in the same words
    number, command = _LIMITS[what]
    allowed = None
    with contextlib.suppress(OSError, ValueError):
        allowed = resource.getrlimit(number)[0]
    unit = " bytes" if what in (MEMORY, SIZE) else ""
    where = "" if allowed in (None, resource.RLIM_INFINITY) else f" ({command}: {allowed}{unit})"
    return OutOfResources(
        f"corral has reached its limit of {what}{where}",
        hint=f"raise it with `{command}`, or run less at a time; nothing stored is lost",
    )
