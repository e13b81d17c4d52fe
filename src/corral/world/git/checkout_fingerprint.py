"""A mark of a whole checkout that differs when anything in it does: then git need not be asked again."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

MOST_ENTRIES = 2000  #: with more of them git is as quick
YOUNG_SECONDS = 2.0  #: what changed so lately can change again without a new time of its own
OWN_FILES = (b"HEAD", b"index", b"config", b"info/exclude", b"info/attributes", b"info/sparse-checkout")
#: Settings by which files elsewhere have a say in what git tells of a checkout.
ELSEWHERE = re.compile(rb"include|excludesfile|attributesfile|worktree|\[\s*filter", re.IGNORECASE)


class _NoMark(Exception):
    """A checkout that can have no mark."""


def of_checkout(folder: Path, git_dir: Path) -> str | None:
    """Return the mark; None where there is none: a large or young checkout, or one that is not all in one place.

    It is made of what the kernel knows of each entry. No program can set the time of an entry's last change.
    """
    if git_dir != folder / ".git" or git_dir.is_symlink() or not git_dir.is_dir():
        return None
    digest, newest = hashlib.sha256(), 0
    try:
        for path, about in itertools.chain(_settings(os.fsencode(git_dir)), _files(os.fsencode(folder))):
            newest = max(newest, about.st_ctime_ns)
            digest.update(path + _stat_line(about))
    except (OSError, _NoMark):
        return None
    return None if newest > time.time_ns() - int(YOUNG_SECONDS * 1e9) else digest.hexdigest()


def _settings(git_dir: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    if ELSEWHERE.search(Path(os.fsdecode(git_dir), "config").read_bytes()):
        raise _NoMark
    for name in OWN_FILES:
        with contextlib.suppress(FileNotFoundError):
            path = git_dir + b"/" + name
            yield path, os.lstat(path)


def _files(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    left, waiting, own = MOST_ENTRIES, [folder], folder + b"/.git"
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.path == own:
                    continue
                left -= 1
                if not left or entry.name == b".git":  # another repository: what it holds may lie elsewhere
                    raise _NoMark
                yield entry.path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _stat_line(about: os.stat_result) -> bytes:
    times = (about.st_mtime_ns, about.st_ctime_ns)
    return b"\0%o %d %d %d %d %d\n" % (about.st_mode, about.st_uid, about.st_size, about.st_ino, *times)
