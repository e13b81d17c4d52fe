"""The fence of a run: a process that has lost the run writes nothing and starts nothing for it any more.

The fence is a context variable. A task that drives a run enters it; every task started from there inherits it. The
store checks it in each transaction, and `world.process` before each program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from corral.model.errors import StoreTrouble, TakenOver


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
