"""Memory that no process of a box shows: buffers of sockets and pipes, System V IPC; what the machine has left."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from corral.errors import CorralError
from corral.world import process
from corral.world.process import Start

GAUGE = Path(__file__).parent / "sandbox" / "gauge.py"
PAGE = os.sysconf("SC_PAGE_SIZE")
SOCKET_BYTES = 262_144  #: the most that one Unix socket holds while its buffer has the usual size
SHARED = b"/dev/zero (deleted)"  #: how a mapping that is shared and has no file is listed
LEAST_FLOOR, MOST_FLOOR = 256 << 20, 1 << 30
GAUGE_TIMEOUT_SECONDS = 20.0


async def measure(pids: Sequence[int]) -> int:
    """Return the bytes a box has in the kernel; 0 where that cannot be found out."""
    words = [sys.executable, "-IS", str(GAUGE), *map(str, pids)]
    try:
        finished = await process.run(Start(argv=words, env={}), timeout=GAUGE_TIMEOUT_SECONDS)
    except CorralError:
        return 0
    rows = [line.split() for line in finished.out.decode(errors="replace").splitlines()]
    return sum(int(row[1]) for row in rows) if finished.code == 0 else 0


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


def has_shared(pids: Sequence[int]) -> bool:
    """Tell whether a process maps shared memory without a file: its pages stay when the process drops them."""
    return any(SHARED in _maps(pid) for pid in pids)


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
