"""git as a program: how it is started, within which limits, and what its errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral import amounts
from corral.model.errors import BadRequest, CorralError, GitTrouble, OutOfResources
from corral.world import machine_limits, process
from corral.world.process import ProcessResult, ProcessStart
from corral.world.sandbox.profile import kind, launcher

OLDEST: tuple[int, ...] = (2, 38)  #: the first with `merge-tree --write-tree`
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_EDITOR": "true",
}
#: A repository's own settings may name programs; none of them is to run.
SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
    "-c", "core.quotePath=false", "-c", "protocol.allow=never", "-c", "protocol.file.allow=always",
    "-c", "commit.gpgSign=false", "-c", "diff.external=",
)  # fmt: skip
#: What `git fsck` only warns of. What it calls an error is refused: one such commit would break the user's `git fsck`.
HARMLESS = ("zeroPaddedFilemode", "nulInCommit")
#: What git says of a lock file that is there already, of a ref, an index or settings.
LOCKED = re.compile(r"(?:Unable to create|unable to create|could not lock) '([^\n]+\.lock)': File exists")
#: What git says of an object that is not as it should be.
FINDING = re.compile(r"object ([0-9a-f]{40,64}): (\w+: [^\n]*)")
CHECKOUTS = ("checkout-index", "read-tree", "reset")  #: these write as many files as a commit has
WALKS = ("merge-base", "pack-objects", "rev-list")  #: these go through history: memory grows with the repository
CONFINED = (
    *CHECKOUTS, *WALKS, "cat-file", "diff", "diff-tree", "grep", "index-pack", "log", "ls-tree", "merge-file",
    "merge-tree", "show", "unpack-objects",
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


class BadSubmodules(GitTrouble):
    """A .gitmodules that git refuses."""


_known: list[tuple[int, ...]] = []


async def version() -> tuple[int, ...]:
    """Return git's version, or say that it is missing or too old; asked once."""
    if not _known:
        _known.append(await _version())
    return _known[0]


async def _version() -> tuple[int, ...]:
    try:
        finished = await process.run(ProcessStart(argv=["git", "version"], env=ENV))
    except OutOfResources:
        raise
    except CorralError as error:
        raise BadRequest("git is not installed", hint="sudo apt-get install git") from error
    match = re.search(rb"(\d+)\.(\d+)(?:\.(\d+))?", finished.out)
    found = [int(part or 0) for part in match.groups()] if match else [0]
    if found < list(OLDEST):
        have, need = ".".join(map(str, found)), ".".join(map(str, OLDEST))
        raise BadRequest(f"git {have} is too old", hint=f"corral needs git {need} or later")
    return tuple(found)


def command_of(arguments: Sequence[str]) -> str:
    """Return which of git's commands these words start; settings may be before it."""
    words = iter(arguments)
    for word in words:
        if word == "-c":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


async def run_git(
    start: ProcessStart,
    command: str,
    limits: GitLimits | None,
    fine: Sequence[int] = (0,),
    talk: tuple[Callable[[bytes], object] | None, asyncio.Queue[bytes | None] | None] = (None, None),
) -> ProcessResult:
    """Run git to its end; with limits where it reads what an agent wrote."""
    sink, more = talk
    if limits is None:
        ended = await process.run(start, sink=sink, more=more)
    else:
        try:
            ended = await process.run(confine_git(start, limits), timeout=limits.seconds, sink=sink, more=more)
        except process.TooSlow:
            raise GitTrouble(f"git {command} did not end within {limits.seconds:.0f} s: the work is too much") from None
    if ended.code not in fine:
        raise trouble(command, ended, limits)
    return ended


def trouble(command: str, finished: ProcessResult, limits: GitLimits | None = None) -> GitTrouble:
    """Return what git's words mean, with a hint for what a user can do about it."""
    words = finished.err.decode(errors="replace").strip() or f"git ended with {finished.code}"
    if locked_by := LOCKED.search(words):
        lock = Path(locked_by[1])
        return GitTrouble(
            f"git {command}: {lock} is in the way{age(lock)}: a git is at work there, or was killed",
            hint=f"wait for it; if no git is running there: rm {shlex.quote(str(lock))}",
        )
    if limits and is_over_limit(finished.code, words):
        return limits.over_limit_error(command)
    if "gitmodules" in words:
        part = next((name for name in ("Name", "Url", "Path") if f"gitmodules{name}" in words), "").lower()
        return BadSubmodules(
            f"its .gitmodules has a submodule whose {part or 'entry'} git refuses: it could write or run elsewhere",
            hint="names must not hold .., urls and paths must not start with a dash, and no entry may name a command",
        )
    if finding := FINDING.search(words):
        return GitTrouble(f"its work holds an object that `git fsck` calls broken: {finding[1]}: {finding[2]}")
    full = machine_limits.is_disk_full(words)
    return GitTrouble(f"git {command}: {words}", hint="the disk is full: make room, then try again" if full else "")


def age(file: Path) -> str:
    """Return how long ago a file was made, in words; empty where it is gone."""
    try:
        return f", {amounts.seconds(max(0.0, time.time() - file.stat().st_mtime))} old"
    except OSError:
        return ""


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
    most = str(limits.mb << 10), f"{limits.seconds:.0f}"
    if kind() != "compiled" or start.pass_fds:  # its twin takes longer to start than most gits to end
        return structs.replace(start, argv=["/bin/sh", "-c", CONFINE, "git", *most, *start.argv])
    user = ["-u", str(start.owner.uid), "-g", str(start.owner.gid)] if start.owner else []
    return structs.replace(
        start,
        argv=[*launcher(), "-p", str(os.getpid()), *user, "-d", most[0], "-t", most[1], "--", *start.argv],
        owner=None,
    )


def is_over_limit(code: int, words: str) -> bool:
    """Tell whether a confined git ended by its limits."""
    return code < 0 or any(sign in words.lower() for sign in USED_UP)
