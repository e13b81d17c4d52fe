"""Locks that processes share, and the fence of a run: a process that lost the run writes and starts nothing for it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

from corral.model.errors import CorralError, StoreTrouble, TakenOver
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
    import asyncio  # noqa: PLC0415 -- commands that only look start without it

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


class Fence(Struct, frozen=True):
    """The right to act for a run while its epoch is this one."""

    run: str
    epoch: int
    epoch_now: Callable[[str], int | None]  #: the epoch that is stored for a run; None if the run is gone

    def holds(self) -> bool:
        """Return whether the run is still this process's; True if that cannot be read: others cannot take it either."""
        try:
            return self.epoch_now(self.run) == self.epoch
        except StoreTrouble:
            return True

    def check(self) -> None:
        if not self.holds():
            raise TakenOver(f"another process has taken over run {self.run}", hint="see `corral ls`")


_CURRENT: ContextVar[Fence | None] = ContextVar("fence", default=None)


def current() -> Fence | None:
    return _CURRENT.get()


@contextmanager
def act_within(fence: Fence) -> Generator[None]:
    """Act for a run, within its fence."""
    token = _CURRENT.set(fence)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check() -> None:
    """Raise TakenOver if another process has taken over the run that this task acts for."""
    if fence := _CURRENT.get():
        fence.check()


def holds() -> bool:
    """Return whether this task may still act for its run; True where it acts for none."""
    fence = _CURRENT.get()
    return fence is None or fence.holds()
