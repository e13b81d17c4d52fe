"""Running processes: found by the tag of their attempt, distinguished by start time, ended for good."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from corral.world.process_names import boot, is_alive, own_name, process_of, started_at

__all__ = ["boot", "is_alive", "own_name", "process_of", "started_at"]

PROC = Path("/proc")
LOOKS = 10
END_SECONDS = 5.0


class Leftover(Struct, frozen=True):
    """A process that outlived its attempt and was ended."""

    pid: int
    name: str


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except OSError:
        return []


def first_child(pid: int) -> int | None:
    found = children(pid)
    return found[0] if found else None


def name_of(pid: int) -> str | None:
    """Return the name of a process that runs; None: it is over."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return None if rest.split()[0] == "Z" else name


def is_suspended(pid: int) -> bool:
    """Return whether a process is stopped by a signal or a debugger."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def stopped_holder(file: Path) -> int | None:
    """Return the process that holds a lock on a file and cannot release it: it is stopped by a signal."""
    return next((pid for pid in _holders(file) if is_suspended(pid)), None)


def lock_holder(file: Path) -> int | None:
    """Return the process that holds a lock on a file; one that inherited it where the first one is gone."""
    for pid in _holders(file):
        if started_at(pid):
            return pid
    with contextlib.suppress(OSError):
        return _inheritor(file.stat())
    return None


def _holders(file: Path) -> Iterator[int]:
    try:
        about = file.stat()
        locks = (PROC / "locks").read_text().splitlines()
    except OSError:
        return
    for fields in (line.split() for line in locks if " -> " not in line):
        pid, place = fields[4], fields[5]
        held = fields[3] == "WRITE" and place.rpartition(":")[2] == str(about.st_ino)
        if held and has_open(int(pid), about) is not False:
            yield int(pid)


def _inheritor(file: os.stat_result) -> int | None:
    """Return a process with a descriptor that holds a lock on a file, which another process may have taken."""
    for pid in (int(name) for name in os.listdir(PROC) if name.isdigit()):  # noqa: PTH208
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), file)  # noqa: PTH116
                if same and "lock:" in Path(f"/proc/{pid}/fdinfo/{name}").read_text():
                    return pid
    return None


def program_of(pid: int) -> str:
    """Return the program of a process and its command word; no other argument: it may be long or secret."""
    try:
        words = os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).split("\0")
    except OSError:
        return "gone"
    if re.match(r"python[0-9.]*$", Path(words[0]).name) and len(words) > 1 and not words[1].startswith("-"):
        words = words[1:]
    rest = iter(words[1:])
    for word in rest:
        if word in ("-c", "-m"):
            next(rest, None)
        elif not word.startswith("-"):
            break
    else:
        word = ""
    name = re.sub(r"[^\w.+-]", "?", Path(words[0]).name)[:40]
    return f"{name} {word}" if re.fullmatch(r"[a-z][a-z-]{1,19}", word) else name


def has_open(pid: int, file: os.stat_result) -> bool | None:
    """Tell whether a process has a file open: a number alone may be another device's; None where we may not look."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return None
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), file):  # noqa: PTH116
                return True
    return False


def end(owner: str) -> bool:
    """End the process of that name on this machine; return whether it is gone: the kernel may hold it for a while."""
    pid = process_of(owner)
    if pid is None or not is_alive(owner):
        return True
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    until = time.monotonic() + END_SECONDS
    while is_alive(owner):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def has_processes(tag: str) -> bool:
    """Return whether a process of this attempt is running."""
    return any(name is not None for _, name in _tagged_processes(tag, None))


def sweep(tag: str, uid: int | None = None) -> list[Leftover]:
    """End every process that carries this attempt's tag (and is of this user); return what had to be ended."""
    found: dict[int, Leftover] = {}
    for _ in range(50):  # a forking process may be one step ahead
        alive_now = list(_tagged_processes(tag, uid))
        if not alive_now:
            break
        for pid, name in alive_now:
            if name is None:
                continue
            found[pid] = Leftover(pid, name)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return list(found.values())


def _tagged_processes(tag: str, uid: int | None) -> Iterator[tuple[int, str | None]]:
    """Yield the processes with this tag and their names; without a name where it is not known yet."""
    mark = b"CORRAL_ATTEMPT=" + tag.encode() + b"\0"
    if sys.platform != "linux":
        return
    own = os.getpid()
    for name in os.listdir(PROC):  # noqa: PTH208 -- a machine has many processes, and each attempt looks at all
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError):
            if uid is not None and os.stat(f"/proc/{name}").st_uid != uid:  # noqa: PTH116
                continue
            environment = _environment(name)
            if environment is None:
                yield int(name), None
            elif mark in environment and started_at(int(name)):
                yield int(name), (PROC / name / "comm").read_text().strip()


def _environment(pid: str) -> bytes | None:
    """Return the environment of a process; None while it is becoming another program, when all of it reads as empty."""
    for _ in range(LOOKS):
        if environment := _all_of(f"/proc/{pid}/environ"):
            return environment
        if not _all_of(f"/proc/{pid}/cmdline"):
            return None if started_at(int(pid)) else b""
    return b""  # it has none: once is not enough to say so, it may have become another between two looks


def _all_of(file: str) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = part = os.read(descriptor, 1 << 16)
        while part:
            part = os.read(descriptor, 1 << 16)
            data += part
        return data
    finally:
        os.close(descriptor)
