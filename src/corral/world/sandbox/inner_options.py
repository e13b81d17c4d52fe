"""What the inner launcher is told: limits, what may be read and written, which ports are open."""

from __future__ import annotations

import os
from pathlib import Path

from corral.world.sandbox.profile import HOME, SCRATCH, Box
from corral.world.sandbox.program_files import ETC, SYSTEM, authorities, outermost

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def limits(box: Box, *, processes: bool) -> list[str]:
    """Return the limits that the kernel keeps for each process; the number of them only where they are its own."""
    asked = {
        "-n": box.processes if processes else None,
        "-f": box.file_mb and box.file_mb << 20,
        "-d": box.memory_mb and box.memory_mb << 20,
        "-t": box.cpu_seconds,
        "-o": box.nofile,
    }
    return [word for name, value in asked.items() if value for word in (name, str(value))]


def in_box(box: Box, control: int | None, *, grouped: bool) -> list[str]:
    """Return the arguments for a box with a root of its own: all in it may be read, little may be written."""
    words = [*limits(box, processes=True), *_counted(box, grouped=grouped)]
    for port in box.listeners:
        words += ["-l", str(port)]
    if control is not None:
        words += ["-c", str(control)]
    writable = [HOME, *SCRATCH, "/dev", "/proc", str(box.workspace), *map(str, box.writable)]
    return [*words, "-r", "/", *_each("-w", writable), "--"]


def by_landlock(box: Box, scratch: Path, *, own_user: bool) -> list[str]:
    """Return the arguments where Landlock alone holds: each path that may be read or written by its own name."""
    etc = [Path("/etc", name) for name in (*ETC, "passwd", "group")]
    system = [*map(Path, SYSTEM), *etc, Path("/proc"), Path("/dev")]
    readable = [*system, *box.readable, *_named(box), *authorities(box.env)]
    devices = [Path("/dev", name) for name in DEVICES]
    writable = [*devices, box.workspace, box.home, scratch, *box.writable]
    words = [*limits(box, processes=own_user), *_counted(box, grouped=False)]
    words += _each("-r", [str(path) for path in outermost(readable) if _opens(path)])
    words += _each("-w", [str(path) for path in writable if _opens(path)])
    if box.own_network:
        words += ["-i", *_each("-p", [str(port) for port in box.listeners])]
    return [*words, "--"]


def _named(box: Box) -> list[Path]:
    """Return what the scope lets it read elsewhere; nothing with a hidden part: Landlock cannot except that."""
    hidden = [mask.path for mask in box.masks if mask.mode == "hidden"]
    readable = [mask.path for mask in box.masks if mask.mode == "readonly"]
    return [
        path
        for path in readable
        if not path.is_relative_to(box.workspace) and not any(each.is_relative_to(path) for each in hidden)
    ]


def _counted(box: Box, *, grouped: bool) -> list[str]:
    """Return the option by which all memory can be counted from outside; a control group counts it by itself."""
    return ["-m"] if box.memory_mb and not grouped else []


def _opens(path: Path) -> bool:
    return os.access(path, os.F_OK)


def _each(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
