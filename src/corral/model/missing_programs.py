"""The hint for a program or file that was not found in a box, by an exit code and what was printed."""

from __future__ import annotations

import re

from corral.model.values import NOT_STARTED, NOT_STARTED_HINT

#: How shells, make, Python and Node say that a path is not there; a shell's own name is before.
ABSENT = re.compile(
    r"(/[^\s:'\"]+): (?:line \d+: )?(?:[Nn]o such file or directory|not found)"
    r"|[Nn]o such file or directory: '(/[^'\x00-\x1f\x7f-\x9f]+)'"
    r"|spawn (/\S+) ENOENT"
)
#: Where a box has files of its own; only a program that lies there was hardly meant to be made in it.
OWN = ("/tmp/", "/var/tmp/", "/run/", "/proc/", "/dev/", "/home/agent/")  # noqa: S108 -- of the box
#: How Node, Python and the linker say that a part of a program is not there.
LACKING = re.compile(
    r"Missing optional dependency (?P<a>[\w@./-]+?)[.,;]?(?:\s|$)"
    r"|Cannot find (?:module|package) '(?P<b>[^'\x00-\x1f\x7f-\x9f]{1,200})'"
    r"|ModuleNotFoundError: No module named '(?P<c>[^'\x00-\x1f\x7f-\x9f]{1,200})'"
    r"|error while loading shared libraries: (?P<d>[\w@./+-]{1,200})"
)
#: Lines that say nothing of a cause: where a program was, its version, quoted code, and a bracket.
NOISE = re.compile(r"\s+at |\s+File \"|Node\.js v\d|[\s^~}\])]*$|(?:node:|file:)\S+:\d+$")
NAMED = re.compile(r"(?:\w*(?:Error|Exception)|[Ee]rror|ERROR|fatal)\b[^:\n]{0,40}: ?\S")
LAST_READ = 40  #: lines, from the end
MADE_127 = "Error 127"  #: make ends with 2 where a recipe ended with 127
MOST_READ = 20_000


def telling_line(printed: str) -> str:
    """Return the line at the end of what a program printed that says best why it failed."""
    whole = printed[-MOST_READ:].strip().splitlines()
    lines = [line for line in whole if not NOISE.match(line)][-LAST_READ:] or whole
    named = next((line for line in reversed(lines) if LACKING.search(line) or NAMED.search(line)), None)
    return (named or (lines[-1] if lines else "")).strip()


def lacking_part(line: str) -> str:
    """Return the module, package or library that a line says is missing, if it says so."""
    found = LACKING.search(line)
    return next(filter(None, found.groups()), "") if found else ""


def hint_for_lacking(part: str) -> str:
    return f"{part} is missing: install the program anew where it lies, or show its folder with [scope] read"


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
