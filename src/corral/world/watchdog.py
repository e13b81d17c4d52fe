"""What the kernel does not limit is measured: memory and number of a box's processes, disk space of its folders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from corral.world.process import Start
from corral.world.sandbox.profile import SCRATCH

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOKS = 50  #: one that starts others may be a step ahead
ENTRIES_AT_ONCE = 20_000  #: a walk through a larger tree takes several turns

Passed = Literal["memory", "disk", "processes"]


class Ceiling(Struct, frozen=True, kw_only=True):
    """How much a box may use; what is None is not measured."""

    memory_mb: int | None = None
    processes: int | None = None
    disk_mb: int | None = None


async def watch(start: Start, ceiling: Ceiling, folders: Sequence[Path], every_seconds: float = 0.5) -> Passed:
    """Return what a running box has too much of, as soon as it has; to be cancelled when the box is gone."""
    usage = DiskUse(folders)
    while True:
        passed = await asyncio.to_thread(_passed, start, ceiling, usage)
        if passed:
            return passed
        await asyncio.sleep(every_seconds)


def _passed(start: Start, ceiling: Ceiling, usage: DiskUse) -> Passed | None:
    found = members(start)
    if ceiling.processes is not None and len(found) > ceiling.processes:
        return "processes"
    if ceiling.memory_mb is not None and memory_bytes(found, enough=ceiling.memory_mb << 20) > ceiling.memory_mb << 20:
        return "memory"
    if ceiling.disk_mb is not None and usage.measure() > ceiling.disk_mb << 20:
        return "disk"
    return None


def members(start: Start) -> list[int]:
    """Return the processes of a started box; where it has none of its own, those below its launcher."""
    inside = start.box_pid() if start.box_pid else None
    if inside:
        return [inside, *descendants(inside)]
    mark = b"CORRAL_ATTEMPT=" + start.tag.encode() + b"\0"
    ours = [child for child in children(os.getpid()) if mark in _read(child, "environ")]
    return [each for launcher in ours for each in descendants(launcher)]


@contextlib.contextmanager
def held(start: Start) -> Generator[None]:
    """Stop the processes of a box for a while, so that what it has too much of does not grow."""
    first = start.box_pid() if start.box_pid else None
    stopped: set[int] = set()
    for _ in range(LOOKS):
        found = {*members(start)} - stopped - {first}
        for pid in found:
            _signal(pid, signal.SIGSTOP)
        stopped |= found
        if not found:
            break
    try:
        yield
    finally:
        for pid in stopped:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def children(pid: int) -> list[int]:
    """Return the processes whose parent is any thread of this one."""
    with contextlib.suppress(OSError):
        threads = [thread.name for thread in (PROC / str(pid) / "task").iterdir()]
        lists = [_read(pid, f"task/{thread}/children") for thread in threads]
        return [int(child) for each in lists for child in each.split()]
    return []


def descendants(pid: int) -> list[int]:
    """Return all processes below this one."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += children(each)
    return found


def memory_bytes(pids: Sequence[int], enough: int | None = None) -> int:
    """Add up the memory of processes: what they share is counted once.

    Below `enough` the quick count, in which shared memory stands several times, is as good an answer.
    """
    files = _memory_files(pids)
    resident = sum(_resident(pid) for pid in pids) + files
    if enough is not None and resident <= enough:
        return resident
    return sum(_proportional(pid) for pid in pids) + files


def _resident(pid: int) -> int:
    words = _read(pid, "statm").split()
    return int(words[1]) * PAGE if len(words) > 1 else 0


def _proportional(pid: int) -> int:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    return _resident(pid)  # not ours to read, or an old kernel


def _memory_files(pids: Sequence[int]) -> int:
    """Return what lies in a box's own folders that are memory; 0 where it has none or we may not look."""
    used = 0
    for folder in SCRATCH if pids else ():
        with contextlib.suppress(OSError):
            inside = os.statvfs(f"{PROC}/{pids[0]}/root{folder}")
            if inside.f_fsid != os.statvfs("/").f_fsid and inside.f_blocks * inside.f_frsize <= SCRATCH[folder]:
                used += (inside.f_blocks - inside.f_bfree) * inside.f_frsize
    return used


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:  # it ended meanwhile, or is not ours to read
        return b""


class DiskUse:
    """Measures folders, a bounded number of entries at a time; holes in files and second names count nothing."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        self._whole = self._part = 0
        self._walk: Generator[int] | None = None

    def measure(self, most_entries: int = ENTRIES_AT_ONCE) -> int:
        """Go on measuring; return the bytes found by the last walk that came to its end, or by this one if more."""
        self._walk = self._walk or self._blocks()
        for _ in range(most_entries):
            found = next(self._walk, None)
            if found is None:
                self._whole, self._part, self._walk = self._part, 0, None
                break
            self._part += found
        return max(self._whole, self._part)

    def _blocks(self) -> Generator[int]:
        seen: set[tuple[int, int]] = set()
        waiting = [str(folder) for folder in self._folders]
        while waiting:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(about.st_mode):
                            waiting.append(entry.path)
                        elif about.st_nlink > 1:
                            if (about.st_dev, about.st_ino) in seen:
                                continue
                            seen.add((about.st_dev, about.st_ino))
                        yield about.st_blocks * 512
