"""Limits of git commands that read what agents wrote: memory, time, and the life of corral itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.model.errors import GitTrouble
from corral.world.process import ProcessStart
from corral.world.sandbox.profile import kind, launcher

CHECKOUTS = ("checkout-index", "read-tree", "reset")  #: these write as many files as a commit has
WALKS = ("merge-base", "pack-objects", "rev-list")  #: these go through history: memory grows with the repository
CONFINED = (
    *CHECKOUTS, *WALKS, "cat-file", "diff", "grep", "index-pack", "log", "ls-tree", "merge-file", "merge-tree", "show",
    "unpack-objects",
)  # fmt: skip
STREAMED = (*CHECKOUTS, "pack-objects")  #: these handle large files piece by piece
CONFINED_MB, CONFINED_SECONDS = 400, 120
CHECKOUT_SECONDS = 600
INDEX_FACTOR = 8  #: bytes of memory for each byte of a pack's index, in a walk of all of history
MOST_MB = 8 << 10
#: Data, not address space: git maps large packs.
CONFINE = 'ulimit -d "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; shift 2; exec "$@"'
USED_UP = ("out of memory", "malloc failed", "mmap failed", "cannot allocate", "realloc failed")
LARGE = ("-c", "core.bigFileThreshold=16m")  #: files that are compared as a whole, not by their lines


class OverLimit(GitTrouble):
    """A git that was confined used up what it had."""


class GitLimits(Struct, frozen=True):
    """What one git command may use."""

    mb: int = CONFINED_MB
    seconds: float = CONFINED_SECONDS

    def over_limit_error(self, command: str) -> OverLimit:
        return OverLimit(f"git {command} needs more than {self.mb} MB or {self.seconds:.0f} s: the work is too much")


def limits_of(command: str, arguments: Sequence[str], folders: Sequence[Path]) -> GitLimits | None:
    """Return the limits of a git command that may read what an agent wrote; None for any other.

    `folders`: where the objects of the repository lie; only the history of a large repository needs more memory.
    """
    if command in CHECKOUTS:
        return GitLimits(seconds=CHECKOUT_SECONDS)
    if command in WALKS:
        return GitLimits(mb=walk_mb(folders))
    return GitLimits() if command in CONFINED or (command == "config" and "--blob" in arguments) else None


def walk_mb(folders: Sequence[Path]) -> int:
    """Return how much memory a walk of all of history may take, by the number of objects there."""
    size = 0
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder / "pack") as entries:
            size += sum(entry.stat().st_size for entry in entries if entry.name.endswith(".idx"))
    return min(CONFINED_MB + (INDEX_FACTOR * size >> 20), MOST_MB)


def confine_git(start: ProcessStart, limits: GitLimits | None = None) -> ProcessStart:
    """Give a git command limits; it ends when this process ends, unless it holds a lock of ours: then it may finish."""
    limits = limits or GitLimits()
    words = ["/bin/sh", "-c", CONFINE, "git", str(limits.mb << 10), f"{limits.seconds:.0f}"]
    if kind() != "compiled" or start.pass_fds:  # its twin takes longer to start than most gits to end
        return structs.replace(start, argv=[*words, *start.argv])
    user = ["-u", str(start.owner.uid), "-g", str(start.owner.gid)] if start.owner else []
    return structs.replace(
        start, argv=[*launcher(), "-p", str(os.getpid()), *user, "--", *words, *start.argv], owner=None
    )


def is_over_limit(code: int, words: str) -> bool:
    """Tell whether a confined git ended by its limits."""
    return code < 0 or any(sign in words.lower() for sign in USED_UP)
