"""Turn a command and a box into something `process` can start, at the level this machine holds."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from corral.model import Level
from corral.world.process import Owner, Start
from corral.world.sandbox.profile import HOME, Box, build

#: Users of agents when corral is root: far above any real one, or below 65536 where a container maps no more.
FIRST_UID, UIDS = 1_879_048_192, 1_000_000
SMALL_FIRST_UID, SMALL_UIDS = 61_000, 4_000


class Confined:
    """A command in its box, ready to start; close it when the process is gone."""

    def __init__(self, start: Start, opened: Sequence[int] = ()) -> None:
        self.start = start
        self._opened = opened

    def __enter__(self) -> Start:
        return self.start

    def __exit__(self, *_: object) -> None:
        for descriptor in self._opened:
            os.close(descriptor)


def home_in_box(box: Box, level: Level) -> str:
    """Return the path by which the agent knows its home."""
    return str(box.home) if level == "none" else HOME


def agent_owner(attempt: str) -> Owner | None:
    """Return the user an attempt runs as: its own when corral is root, else the caller."""
    if os.getuid() != 0:
        return None
    first, count = FIRST_UID, UIDS
    with contextlib.suppress(OSError, ValueError):
        ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(int(start) <= first < int(start) + int(size) for start, _, size in ranges):
            first, count = SMALL_FIRST_UID, SMALL_UIDS
    uid = first + zlib.crc32(attempt.encode()) % count
    return Owner(uid, uid)


def launcher() -> list[str]:
    """Return the launcher: the compiled one, or its twin."""
    compiled = Path(__file__).with_name("launcher")
    if os.access(compiled, os.X_OK) and not os.environ.get("CORRAL_PYTHON_LAUNCHER"):
        return [str(compiled)]
    return [sys.executable, "-IS", str(Path(__file__).with_name("launcher.py"))]


def confine(
    argv: Sequence[str], box: Box, level: Level, *, tag: str, stdin: bytes = b"", wrapped: bool = False
) -> Confined:
    """Put a command into its box. At level `none` there is no box: only a private home and the parent's fate."""
    parent = ["-p", str(os.getpid())]
    env = {**box.env, "CORRAL_ATTEMPT": tag}
    if level == "none":
        start = Start(argv=[*launcher(), *parent, "--", *argv], env=env, cwd=str(box.workspace), stdin=stdin, tag=tag)
        return Confined(start)
    owner = agent_owner(tag)
    uid, gid = (owner.uid, owner.gid) if owner else (os.getuid(), os.getgid())
    profile = build(structs.replace(box, env=env), uid=uid, gid=gid, stage=owner is not None)
    drop = ["-u", str(uid), "-g", str(gid)] if owner else []
    staged = [word for path in profile.staged for word in ("-b", path)]
    arguments = _in_memory(profile.arguments)
    told, tells = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    start = Start(
        argv=[
            *launcher(), *parent, *drop, *staged, "--",
            shutil.which("bwrap") or "bwrap", "--args", str(arguments), "--info-fd", str(tells), "--", *argv,
        ],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdin=stdin,
        pass_fds=(arguments, tells),
        tag=tag,
        box_pid=_BoxPid(told).read,
        wrapped=wrapped,
        uid=owner.uid if owner else None,
    )  # fmt: skip
    return Confined(start, (arguments, told, tells))


class _BoxPid:
    """Learns from bubblewrap which process is the first in the box."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = b""

    def read(self) -> int | None:
        with contextlib.suppress(BlockingIOError, OSError):
            self._text += os.read(self._descriptor, 4096)
        with contextlib.suppress(ValueError, KeyError):
            return int(json.loads(self._text)["child-pid"])
        return None


def _in_memory(arguments: Sequence[str]) -> int:
    """Hand arguments over in memory: what stands on a command line is visible to every process of the machine."""
    descriptor = os.memfd_create("box", os.MFD_CLOEXEC)
    os.write(descriptor, b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
