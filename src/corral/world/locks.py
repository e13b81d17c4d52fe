"""Locks that processes share: who holds one, for how long, and how a wait for one ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

from corral.model.errors import CorralError
from corral.world import process_identity

LOOK_SECONDS = 0.01
SUSPENDED_SECONDS = 0.5  #: how often a waiter looks whether the holder is suspended
SAY_SECONDS = 5.0  #: after this time a waiter says whom it waits for
HOLDER_SECONDS = 600.0  #: longest time that one holder is waited for; git at its limits takes less
log = logging.getLogger("corral.locks")

Say = Callable[[str], None]


class LockHeld(CorralError):
    """Another process holds a lock and does not release it."""


class WaitPolicy(Struct, frozen=True):
    """What a task that waits for a lock may do about its holder."""

    say: Say
    #: Seconds until a suspended holder may be ended; 0 once it was; None if it must not be.
    end: Callable[[int], float | None]


_WAITING: ContextVar[WaitPolicy | None] = ContextVar("waiting", default=None)


@contextlib.contextmanager
def wait_by(waiting: WaitPolicy) -> Generator[None]:
    """Let all tasks that are started here wait this way."""
    token = _WAITING.set(waiting)
    try:
        yield
    finally:
        _WAITING.reset(token)


@contextlib.asynccontextmanager
async def hold_lock(file: Path, *, say: Say | None = None, holder_seconds: float = 0.0) -> AsyncGenerator[int, None]:
    """Hold a lock that other processes respect too; it is gone when its holder dies, and all it was passed on to.

    After `holder_seconds` (if not set, `HOLDER_SECONDS`) with one and the same holder the wait ends with `LockHeld`.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        wait: _Wait | None = None
        while not _try_lock(descriptor):
            wait = wait or _Wait(file, say, holder_seconds or HOLDER_SECONDS)
            wait.look(descriptor)
            await asyncio.sleep(LOOK_SECONDS)
        os.utime(descriptor)  # since when it is held
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Wait:
    """One wait for a lock."""

    def __init__(self, file: Path, say: Say | None, most_seconds: float) -> None:
        self._file, self._most = file, most_seconds
        self._waiting = _WAITING.get()
        self._say = say or (self._waiting.say if self._waiting else log.warning)
        self._held_since: int | None = None
        self._begun = self._looked = time.monotonic()
        self._said = False

    def look(self, descriptor: int) -> None:
        """Look at the holder: end it if it is suspended and that is allowed, name it after a while, give up at last."""
        now, held_since = time.monotonic(), os.fstat(descriptor).st_mtime_ns
        if held_since != self._held_since:  # another holder, or the same one again
            self._held_since, self._begun, self._said = held_since, now, False
        seconds = now - self._begun
        if now - self._looked >= SUSPENDED_SECONDS:
            self._looked = now
            self._look_at_suspended(seconds)
        if seconds >= SAY_SECONDS and not self._said:
            self._said = True
            holder, kill = self._holder()
            self._say(f"waiting for {holder}" + (f"; to end it: {kill}" if kill else ""))
        if seconds >= self._most:
            holder, kill = self._holder()
            hint = f"if it hangs, end it: {kill}; then try again" if kill else "try again"
            raise LockHeld(f"waited {self._most:.0f} s for {holder}", hint=hint)

    def _look_at_suspended(self, seconds: float) -> None:
        pid = process_identity.stopped_holder(self._file)
        if pid is None:
            return
        left = self._waiting.end(pid) if self._waiting else None
        if left is None and seconds >= SAY_SECONDS:
            raise LockHeld(
                f"process {pid} is stopped (SIGSTOP) and holds the lock {self._file}",
                hint=f"let it continue: kill -CONT {pid}; or end it: kill -9 {pid}",
            )

    def _holder(self) -> tuple[str, str]:
        """Name the holder: its process, its program, and since when it holds the lock; also the line that ends it."""
        pid = process_identity.lock_holder(self._file)
        age = max(0.0, time.time() - (self._held_since or 0) / 1e9)
        held = f"holds the lock {self._file} for {age:.0f} s"
        if pid is None:
            return f"a process of another user or container, which {held}", ""
        if pid == os.getpid():
            return f"other work of this process, which {held}", ""
        stopped = process_identity.is_suspended(pid)
        program = process_identity.program_of(pid)
        words = f"process {pid} ({program}{', stopped by SIGSTOP' if stopped else ''}), which {held}"
        return words, f"kill {'-9 ' if stopped else ''}{pid}"
