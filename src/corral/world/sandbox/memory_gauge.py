"""Memory of a box that belongs to none of its processes: buffers of sockets, pipes, System V IPC, tables of the kernel.

Usage: python -IS gauge.py PID...: the first process in the box, then all others of it. Prints `NAME BYTES` lines, each
as soon as it is known: what takes long keeps back nothing else.
It enters the box's namespaces, which only a program with a single thread may do; hence a program of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Generator

LIBC = ctypes.CDLL(None, use_errno=True)
NAMESPACES = {"net": 0x40000000, "ipc": 0x08000000}
GET_OWNER = 0xB701  #: NS_GET_USERNS: the users' namespace that a namespace belongs to
SOCK_DIAG, BY_FAMILY, DUMP = 4, 20, 0x301
DONE, FAILED = 3, 2
SHOW_PEER, SHOW_QUEUE, SHOW_MEMORY = 4, 16, 32
OF_UNIX_PEER, OF_UNIX_QUEUE, OF_UNIX_MEMORY, OF_INTERNET_MEMORY = 2, 4, 5, 7
STREAM = 1
EVERY_STATE = 0xFFFFFFFF
DATAGRAMS = 11  #: as many wait at most in one socket (net.unix.max_dgram_qlen, and one more)
USUAL_BUFFER = 212_992
USUAL_PIPES, SMALL_PIPE, LARGE_PIPE, LARGE_PIPES = 256, 8192, 65536, 1024
SEMAPHORE, HEAD, MESSAGE, MAPPING = 64, 256, 48, 200  #: bytes the kernel needs for each
MOST_DESCRIPTORS = 300_000  #: that are looked at; no honest box has more open, so all others count as pipes
MOST_MAPPINGS = 5_000_000  #: that are counted: a gigabyte of the kernel's memory
READ_BYTES = 1 << 16


def main(pids: list[int]) -> Generator[tuple[str, int]]:
    """Measure, the quickest first; what cannot be looked at counts nothing."""
    apart = _enter(pids[0])
    opened = None if "net" in apart else _descriptors(pids)
    mine = opened.sockets if opened else None  # of the machine's own network only what the box has open
    yield "unix", _unix(mine)
    yield "internet", _internet(mine)
    yield "netlink", _netlink(mine)
    if "ipc" in apart:
        yield "shm", sum(int(row[14]) + int(row[15]) for row in _rows("/proc/sysvipc/shm", 16))
        yield "sem", sum(int(row[3]) * SEMAPHORE + HEAD for row in _rows("/proc/sysvipc/sem", 10))
        yield "msg", sum(int(row[3]) + int(row[4]) * MESSAGE + HEAD for row in _rows("/proc/sysvipc/msg", 14))
    opened = opened or _descriptors(pids)
    extra = max(0, opened.pipes - USUAL_PIPES)
    yield "pipes", min(extra, LARGE_PIPES) * LARGE_PIPE + max(0, extra - LARGE_PIPES) * SMALL_PIPE
    yield "mappings", _mappings(pids) * MAPPING


class _Opened:
    """What processes have open."""

    def __init__(self) -> None:
        self.sockets: set[int] = set()
        self.pipes = 0


def _descriptors(pids: list[int]) -> _Opened:
    """Return which sockets processes have open, and how many pipes."""
    found, pipes, left = _Opened(), set[str](), MOST_DESCRIPTORS
    for pid in pids:
        with contextlib.suppress(OSError):
            names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 -- pathlib would double the start-up
            found.pipes += max(0, len(names) - left)
            for name in names[:left]:
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                    if target.startswith("socket:["):
                        found.sockets.add(int(target[8:-1]))
                    elif target.startswith("pipe:["):
                        pipes.add(target)
            left -= min(left, len(names))
    found.pipes += len(pipes)
    return found


def _mappings(pids: list[int]) -> int:
    """Return how many stretches of memory processes have mapped, also those that hold none."""
    count = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb", buffering=0) as file:  # noqa: PTH123
            while count < MOST_MAPPINGS and (part := file.read(READ_BYTES)):
                count += part.count(b"\n")
    return count


def _enter(pid: int) -> set[str]:
    """Enter the namespaces that are not ours; return which."""
    opened: dict[str, int] = {}
    for name in NAMESPACES:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):  # noqa: PTH115
                opened[name] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
    # An ordinary user first becomes who made them; the box itself may be one step further in. Root needs not.
    if opened and os.geteuid() != 0:
        with contextlib.suppress(OSError):
            LIBC.setns(fcntl.ioctl(next(iter(opened.values())), GET_OWNER), 0)
    return {name for name, file in opened.items() if LIBC.setns(file, NAMESPACES[name]) == 0}


def _unix(mine: set[int] | None) -> int:
    asked = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, EVERY_STATE, 0, SHOW_PEER | SHOW_QUEUE | SHOW_MEMORY, 0, 0)
    used = 0
    for body in _dump(asked):
        _, kind, _, _, inode = struct.unpack_from("=BBBBI", body)
        if mine is None or inode in mine:
            found = _attributes(body[16:])
            used += struct.unpack_from("=9I", found.get(OF_UNIX_MEMORY, bytes(36)))[2]  # what it sent, until it is read
            waiting = struct.unpack_from("=II", found.get(OF_UNIX_QUEUE, bytes(8)))[0]
            if waiting and not any(found.get(OF_UNIX_PEER, b"")):  # who sent it is gone, and with it the count
                used += USUAL_BUFFER * (1 if kind == STREAM else DATAGRAMS)
    return used


def _internet(mine: set[int] | None) -> int:
    used = 0
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
            asked = struct.pack("=BBBBI48s", family, protocol, 1 << (OF_INTERNET_MEMORY - 1), 0, EVERY_STATE, bytes(48))
            for body in _dump(asked):
                if mine is None or struct.unpack_from("=I", body, 68)[0] in mine:
                    read, _, _, _, _, sent = struct.unpack_from(
                        "=6I", _attributes(body[72:]).get(OF_INTERNET_MEMORY, bytes(36))
                    )
                    used += read + sent
    return used


def _netlink(mine: set[int] | None) -> int:
    rows = _rows("/proc/net/netlink", 10)
    return sum(int(row[4]) + int(row[5]) for row in rows if mine is None or int(row[9]) in mine)


def _dump(asked: bytes) -> Generator[bytes]:
    """Ask the kernel for all sockets of a kind; yield its answers."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as line:
        line.settimeout(5)
        line.send(struct.pack("=IHHII", 16 + len(asked), BY_FAMILY, DUMP, 1, 0) + asked)
        while True:
            answer = line.recv(READ_BYTES)
            while len(answer) >= 16:
                length, kind = struct.unpack_from("=IH", answer)
                if kind in (DONE, FAILED) or length < 16:
                    return
                yield answer[16:length]
                answer = answer[(length + 3) & ~3 :]


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _rows(path: str, least: int) -> list[list[str]]:
    """Return the rows of a table of the kernel, without its head; none where it has no such table."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
        return [row for row in (line.split() for line in file.readlines()[1:]) if len(row) >= least]
    return []


if __name__ == "__main__":
    for kind, used_bytes in main([int(word) for word in sys.argv[1:]]):
        sys.stdout.write(f"{kind} {used_bytes}\n")
        sys.stdout.flush()
