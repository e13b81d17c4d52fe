"""The hint for a program or file that was not found in a box, by an exit code and what was printed."""

from __future__ import annotations

import re

from corral.model.values import NOT_STARTED, NOT_STARTED_HINT

#: How shells, make, Python and Node say that a path is not there; a shell's own name stands before.
ABSENT = re.compile(
    r"(/[^\s:'\"]+): (?:line \d+: )?(?:[Nn]o such file or directory|not found)"
    r"|[Nn]o such file or directory: '(/[^'\n]+)'"
    r"|spawn (/\S+) ENOENT"
)
#: Where a box has files of its own; only a program that lies there was hardly meant to be made in it.
OWN = ("/tmp/", "/var/tmp/", "/run/", "/proc/", "/dev/", "/home/agent/")  # noqa: S108 -- of the box
MADE_127 = "Error 127"  #: make ends with 2 where a recipe ended with 127
MOST_READ = 20_000


def hint_for_missing(code: int, printed: str, inside: str = "") -> str:
    """Return what to do about it; empty where nothing seems to be missing. `inside` marks paths of the workspace."""
    words = printed[-MOST_READ:]
    for found in ABSENT.finditer(words):
        path = found[1] or found[2] or found[3]
        made_there = path.startswith(OWN) and "/bin/" not in path
        if not made_there and not (inside and inside in path):
            return (
                f"{path} was not found in the box: if it is on this machine, show it with --read {path} or [scope] read"
            )
    return NOT_STARTED_HINT if code in NOT_STARTED or MADE_127 in words else ""
