"""Names of processes that no other will ever have.

`HOST/BOOT/PID/START/NAMESPACE/MACHINE`; older ones end after START. A process id says something only in the PID
namespace, and on the machine, that gave it: two containers, or two machines, may share the name of a host.
"""

from __future__ import annotations

import functools
import os
import time

PROC = "/proc"
UNKNOWN = "-"
OLD_PARTS, PARTS = 4, 6


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a process; pid and start time together name it for good."""
    try:
        with open(f"{PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 -- asked very often
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def own_name() -> str:
    """Return a name for this process that no other will ever have."""
    started = started_at(os.getpid()) or time.time_ns()
    return f"{os.uname().nodename}/{boot()}/{os.getpid()}/{started}/{_namespace()}/{_machine()}"


def is_alive(owner: str) -> bool | None:
    """Tell whether the process of that name runs: None where it lives on another machine, or in another namespace."""
    parts = owner.split("/")
    if not _is_of_this_host(parts):
        return None
    if parts[1] != boot():
        return False if len(parts) == OLD_PARTS or _machine() != UNKNOWN else None
    if not _is_of_this_namespace(parts):
        return None
    if not os.path.exists(PROC):  # noqa: PTH110
        try:
            os.kill(int(parts[2]), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    return started_at(int(parts[2])) == parts[3]


def process_of(owner: str) -> int | None:
    """Return the process id in a name; None where it means nothing here."""
    parts = owner.split("/")
    return int(parts[2]) if _is_of_this_host(parts) and _is_of_this_namespace(parts) else None


def _is_of_this_host(parts: list[str]) -> bool:
    """Tell whether a name was given by a machine with our name; an older one does not say by which."""
    known = len(parts) == OLD_PARTS or (len(parts) == PARTS and parts[5] == _machine())
    return known and parts[0] == os.uname().nodename


def _is_of_this_namespace(parts: list[str]) -> bool:
    if len(parts) == OLD_PARTS or not os.path.exists(PROC):  # noqa: PTH110
        return True
    return parts[4] == _namespace() != UNKNOWN


@functools.cache
def _namespace() -> str:
    """Return the number of our PID namespace; unknown where /proc shows another one's processes."""
    try:
        own = os.readlink(f"{PROC}/self") == str(os.getpid())  # noqa: PTH115
        return str(os.stat(f"{PROC}/self/ns/pid").st_ino) if own else UNKNOWN  # noqa: PTH116
    except OSError:
        return UNKNOWN


@functools.cache
def _machine() -> str:
    """Return the beginning of the machine id; unknown where there is none, as in many containers."""
    try:
        with open("/etc/machine-id", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return "".join(filter(str.isalnum, file.read(8))) or UNKNOWN
    except OSError:
        return UNKNOWN


@functools.cache
def boot() -> str:
    """Return a name of this start of the machine; "-" where there is none."""
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()[:8]
    except OSError:
        return UNKNOWN
