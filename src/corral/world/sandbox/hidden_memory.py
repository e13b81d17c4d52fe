"""Memory that no process of a box shows: buffers of sockets and pipes, System V IPC; what the machine has left."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import ProcessStart

GAUGE = Path(__file__).with_name("memory_gauge.py")
PAGE = os.sysconf("SC_PAGE_SIZE")
SOCKET_BYTES = 262_144  #: the most that one Unix socket holds while its buffer has the usual size
SHARED = b"/dev/zero (deleted)"  #: how a mapping that is shared and has no file is listed
LEAST_FLOOR, MOST_FLOOR = 256 << 20, 1 << 30
GAUGE_TIMEOUT_SECONDS = 20.0


async def measure(pids: Sequence[int]) -> int:
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
    return unix * SOCKET_BYTES + pages * PAGE


def shared_bytes() -> int:
    """Return the shared memory of this machine: files in memory, and mappings without a file."""
    return _machine("Shmem:") or 0


def dropped_bytes(pids: Sequence[int]) -> int:
    """Return the most that processes have in shared memory without a file and do not show: pages that they dropped."""
    held: dict[bytes, int] = {}
    cut_off = 0
    for pid in pids:
        rows = [row.split(maxsplit=5) for row in _maps(pid).splitlines() if row.endswith(SHARED)]
        sizes: dict[bytes, int] = {}
        for extent, inode in ((row[0].decode(), row[4]) for row in rows):
            start, end = (int(each, 16) for each in extent.split("-"))
            try:
                sizes[inode] = os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}").st_blocks * 512  # noqa: PTH116
            except OSError:  # root alone may look behind a mapping: take the most that can be there
                sizes[inode] = sizes.get(inode, 0) + end - start
        # What is no longer mapped may still be there as well.
        cut_off += _figure(pid, "status", "VmPeak:") - _figure(pid, "status", "VmSize:") if rows and os.geteuid() else 0
        held |= {inode: max(size, held.get(inode, 0)) for inode, size in sizes.items()}
    return max(0, sum(held.values()) + cut_off - sum(_visible_shared_bytes(pid) for pid in pids)) if held else 0


def _visible_shared_bytes(pid: int) -> int:
    """Return a process's share of the shared memory that it shows."""
    return _figure(pid, "smaps_rollup", "Pss_Shmem:") or _figure(pid, "status", "RssShmem:")


def _figure(pid: int, table: str, name: str) -> int:
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
    return _machine("MemAvailable:")


def floor_bytes() -> int:
    """Return the memory that is to stay available on this machine, whatever boxes use."""
    return min(max(LEAST_FLOOR, (_machine("MemTotal:") or 0) // 32), MOST_FLOOR)


def is_starved(*, at_start: int, now: int, floor: int, limit: int) -> bool:
    """Tell whether a machine has run out of memory while a box ran, by so much that this box may have taken it."""
    return now < floor and at_start - now > min(limit, at_start // 2)


def _machine(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), None)
