"""Limits of git commands that read what agents wrote: memory, time, and the life of corral itself."""

from __future__ import annotations

import os

from msgspec import structs

from corral.errors import GitTrouble
from corral.world.process import Start
from corral.world.sandbox.launchers import kind, launcher

CONFINED = (
    "cat-file", "diff", "grep", "index-pack", "ls-tree", "merge-base", "merge-tree", "rev-list", "show",
    "unpack-objects",
)  # fmt: skip
CONFINED_MB, CONFINED_SECONDS = 400, 120
#: Data, not address space: git maps large packs.
CONFINE = 'ulimit -d "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; shift 2; exec "$@"'
USED_UP = ("out of memory", "malloc failed", "mmap failed", "cannot allocate", "realloc failed")
LARGE = ("-c", "core.bigFileThreshold=16m")  #: files that are compared as a whole, not by their lines


class OverLimit(GitTrouble):
    """A git that was confined used up what it had."""


def confined(start: Start) -> Start:
    """Give a git command limits; it ends when this process ends."""
    limits = ["/bin/sh", "-c", CONFINE, "git", str(CONFINED_MB << 10), str(CONFINED_SECONDS)]
    if kind() != "compiled":  # its twin takes longer to start than most gits to end
        return structs.replace(start, argv=[*limits, *start.argv])
    user = ["-u", str(start.owner.uid), "-g", str(start.owner.gid)] if start.owner else []
    return structs.replace(
        start, argv=[*launcher(), "-p", str(os.getpid()), *user, "--", *limits, *start.argv], owner=None
    )


def used_up(code: int, words: str) -> bool:
    """Tell whether a confined git ended by its limits."""
    return code < 0 or any(sign in words.lower() for sign in USED_UP)
