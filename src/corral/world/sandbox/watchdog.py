"""What the kernel does not limit is measured: memory and number of a box's processes, disk space of its folders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from msgspec import Struct

from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import ProcessStart
from corral.world.sandbox.profile import SCRATCH

PROC = Path("/proc")
LOOKS = 50  #: one that starts others may be a step ahead
GAUGED, SUSPECTED = 10, 2  #: looks until what processes do not show is measured, and where it might matter
SHORTEST_PAUSE_SECONDS = 0.05
INODE_BYTES = 1024  #: of a file in memory besides its content, as the kernel reckons it
ENTRIES_AT_ONCE = 20_000  #: a walk through a larger tree takes several turns
Passed = Literal["memory", "disk", "processes"]
GAUGE = Path(__file__).with_name("memory_gauge.py")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SOCKET_BYTES = 262_144  #: the most that one Unix socket holds while its buffer has the usual size
SHARED_MEMORY = b"/dev/zero (deleted)"  #: how a mapping that is shared and has no file is listed
LEAST_FLOOR, MOST_FLOOR = 256 << 20, 1 << 30
GAUGE_TIMEOUT_SECONDS = 20.0


class Ceiling(Struct, frozen=True, kw_only=True):
    """How much a box may use; what is None is not measured."""

    memory_mb: int | None = None
    processes: int | None = None
    disk_mb: int | None = None
    grouped: bool = False  #: a control group counts the memory that no process shows


async def watch(
    start: ProcessStart,
    ceiling: Ceiling,
    folders: Sequence[Path],
    every_seconds: float = 0.5,
    first_seconds: float = 0.0,
) -> Passed:
    """Return what a running box has too much of, as soon as it has; to be cancelled when the box is gone."""
    disk, memory = DiskUse(folders), MemoryUse(ceiling, every_seconds)
    try:
        await asyncio.sleep(first_seconds)
        while True:
            found = await asyncio.to_thread(members, start)
            if ceiling.processes is not None and len(found) > ceiling.processes:
                return "processes"
            if await memory.is_too_much(found):
                return "memory"
            if ceiling.disk_mb is not None and await asyncio.to_thread(disk.measure) > ceiling.disk_mb << 20:
                return "disk"
            await asyncio.sleep(memory.pause_seconds())
    finally:
        memory.forget()


class MemoryUse:
    """Measures the memory of one box: what its processes show at each look, what they do not show now and then."""

    used: ClassVar[dict[int, int]] = {}  #: by all boxes of this process, as last seen

    def __init__(self, ceiling: Ceiling, every_seconds: float) -> None:
        self._every = every_seconds
        self._limit = ceiling.memory_mb << 20 if ceiling.memory_mb is not None else None
        self._grouped = ceiling.grouped
        self._at_start = available_bytes()
        self._shared_before = shared_bytes()
        self._hidden = self._growth = 0
        self._gauged = self._seen = time.monotonic()

    async def is_too_much(self, pids: Sequence[int]) -> bool:
        """Look; tell whether the box has more than it may, or the machine has no more to give."""
        if self._limit is None or not pids:
            return False
        used = await asyncio.to_thread(memory_bytes, pids, self._limit)
        if not self._grouped and used <= self._limit:
            used += await self._hidden_bytes(pids, used)
        now, before = time.monotonic(), self.used.get(id(self), 0)
        self._growth = max(0, int((used - before) / max(now - self._seen, 0.001)))
        self._seen, self.used[id(self)] = now, used
        return used > self._limit or (not self._grouped and (self._is_last_straw() or self._hides_shared(pids, used)))

    def _hides_shared(self, pids: Sequence[int], used: int) -> bool:
        """Tell whether this machine got more shared memory than its boxes show, and this box has so much of it."""
        now = shared_bytes()
        self._shared_before = min(self._shared_before, now)
        grown = now - self._shared_before - sum(self.used.values())
        limit = self._limit or 0
        return used + grown > limit and used + min(grown, dropped_bytes(pids)) > limit

    async def _hidden_bytes(self, pids: Sequence[int], shown: int) -> int:
        """Return what the box has in the kernel: asked for every few seconds, sooner where it might matter."""
        waited = time.monotonic() - self._gauged
        suspect = shown + most_in_sockets(pids[0]) > (self._limit or 0)
        if waited > self._every * (SUSPECTED if suspect else GAUGED):
            self._hidden = await measure_hidden(pids)
            self._gauged = time.monotonic()
        return self._hidden

    def _is_last_straw(self) -> bool:
        """Tell whether the machine has run out of memory and no other box of ours uses more than this one."""
        now = available_bytes()
        if now is None or self._at_start is None or self._limit is None:
            return False
        floor = floor_bytes() if now < MOST_FLOOR else 0
        starved = is_starved(at_start=self._at_start, now=now, floor=floor, limit=self._limit)
        return starved and self.used[id(self)] >= max(self.used.values())

    def pause_seconds(self) -> float:
        """Return the time until the next look: less where the memory grows so that the limit is near."""
        if self._limit is None or not self._growth:
            return self._every
        left = (self._limit - self.used.get(id(self), 0)) / self._growth
        return min(self._every, max(left / 2, SHORTEST_PAUSE_SECONDS))

    def forget(self) -> None:
        """Leave the boxes that are compared."""
        self.used.pop(id(self), None)


def members(start: ProcessStart) -> list[int]:
    """Return the processes of a started box; where it has none of its own, those below its launcher."""
    inside = start.box_pid() if start.box_pid else None
    if inside:
        return [inside, *descendants(inside)]
    mark = b"CORRAL_ATTEMPT=" + start.tag.encode() + b"\0"
    ours = [child for child in children(os.getpid()) if mark in _read(child, "environ")]
    return [each for launcher in ours for each in descendants(launcher)]


@contextlib.contextmanager
def hold_processes(start: ProcessStart) -> Generator[None]:
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

    Below `enough` the quick count, which counts shared memory several times, is as good an answer.
    """
    files = _memory_files(pids)
    resident = sum(_resident(pid) for pid in pids) + files
    if enough is not None and resident <= enough:
        return resident
    return sum(_proportional(pid) for pid in pids) + files


def _resident(pid: int) -> int:
    """Return what a process has in memory and in swap, and the page tables for it."""
    return _sum(_read(pid, "status"), (b"VmRSS:", b"VmSwap:", b"VmPTE:"))


def _proportional(pid: int) -> int:
    shares = _sum(_read(pid, "smaps_rollup"), (b"Pss:", b"SwapPss:"))
    # 0 where it is not ours to read, or the kernel is old.
    return shares + _sum(_read(pid, "status"), (b"VmPTE:",)) if shares else _resident(pid)


def _sum(table: bytes, names: tuple[bytes, ...]) -> int:
    return sum(int(line.split()[1]) << 10 for line in table.splitlines() if line.startswith(names))


def _memory_files(pids: Sequence[int]) -> int:
    """Return what lies in a box's own folders that are memory; 0 where it has none or we may not look."""
    used = 0
    for folder in SCRATCH if pids else ():
        with contextlib.suppress(OSError):
            inside = os.statvfs(f"{PROC}/{pids[0]}/root{folder}")
            if inside.f_fsid != os.statvfs("/").f_fsid and inside.f_blocks * inside.f_frsize <= SCRATCH[folder]:
                used += (inside.f_blocks - inside.f_bfree) * inside.f_frsize
                used += (inside.f_files - inside.f_ffree) * INODE_BYTES
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
        """Measure on; return the bytes found by the last walk that came to its end, or by this one if more."""
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


async def measure_hidden(pids: Sequence[int]) -> int:
    """Return the bytes a box has in the kernel, as far as that is found out in time."""
    words, printed = [sys.executable, "-IS", str(GAUGE), *map(str, pids)], bytearray()
    with contextlib.suppress(CorralError):  # too slow: what it printed so far counts
        await process.run(ProcessStart(argv=words, env={}), timeout=GAUGE_TIMEOUT_SECONDS, sink=printed.extend)
    rows = [line.split() for line in printed.decode(errors="replace").splitlines()]
    return sum(int(row[1]) for row in rows if len(row) == 2)


def most_in_sockets(pid: int) -> int:
    """Return the most that the sockets around a process can hold; quick, and never too little."""
    try:
        unix = Path(f"/proc/{pid}/net/unix").read_bytes().count(b"\n") - 1
        words = Path(f"/proc/{pid}/net/sockstat").read_text().split()
    except OSError:  # it ended meanwhile
        return 0
    pages = sum(int(words[place + 1]) for place, word in enumerate(words[:-1]) if word == "mem")
    return unix * SOCKET_BYTES + pages * PAGE_BYTES


def shared_bytes() -> int:
    """Return the shared memory of this machine: files in memory, and mappings without a file."""
    return _machine_memory("Shmem:") or 0


def dropped_bytes(pids: Sequence[int]) -> int:
    """Return the most that processes have in shared memory without a file and do not show: pages that they dropped."""
    held: dict[bytes, int] = {}
    cut_off = 0
    for pid in pids:
        rows = [row.split(maxsplit=5) for row in _maps(pid).splitlines() if row.endswith(SHARED_MEMORY)]
        sizes: dict[bytes, int] = {}
        for extent, inode in ((row[0].decode(), row[4]) for row in rows):
            start, end = (int(each, 16) for each in extent.split("-"))
            try:
                sizes[inode] = os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}").st_blocks * 512  # noqa: PTH116
            except OSError:  # root alone may look behind a mapping: take the most that can be there
                sizes[inode] = sizes.get(inode, 0) + end - start
        # What is no longer mapped may still be there as well.
        cut_off += (
            _memory_figure(pid, "status", "VmPeak:") - _memory_figure(pid, "status", "VmSize:")
            if rows and os.geteuid()
            else 0
        )
        held |= {inode: max(size, held.get(inode, 0)) for inode, size in sizes.items()}
    return max(0, sum(held.values()) + cut_off - sum(_visible_shared_bytes(pid) for pid in pids)) if held else 0


def _visible_shared_bytes(pid: int) -> int:
    """Return a process's share of the shared memory that it shows."""
    return _memory_figure(pid, "smaps_rollup", "Pss_Shmem:") or _memory_figure(pid, "status", "RssShmem:")


def _memory_figure(pid: int, table: str, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{table}").read_text().splitlines()
    except OSError:  # it ended meanwhile, or is not ours to read
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), 0)


def _maps(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def available_bytes() -> int | None:
    """Return the memory this machine can still give away; None where it does not say."""
    return _machine_memory("MemAvailable:")


def floor_bytes() -> int:
    """Return the memory that is to stay available on this machine, whatever boxes use."""
    return min(max(LEAST_FLOOR, (_machine_memory("MemTotal:") or 0) // 32), MOST_FLOOR)


def is_starved(*, at_start: int, now: int, floor: int, limit: int) -> bool:
    """Tell whether a machine has run out of memory while a box ran, by so much that this box may have taken it."""
    return now < floor and at_start - now > min(limit, at_start // 2)


def _machine_memory(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), None)
