"""Wakes when any process has written to the store: by inotify where the kernel has it, by a short look elsewhere."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from pathlib import Path

IN_ATTRIB = 0x4
SIGNAL_FILE = "bell"
LOOK_SECONDS = 0.05  #: how often to look where nothing can wake us


class ChangeSignal:
    """Pulled by whoever has committed something; SQLite's own files change before a commit can be seen."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / SIGNAL_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def pull(self) -> None:
        with contextlib.suppress(OSError):  # a full or read-only disk: then watchers look once a second
            os.utime(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class ChangeWatch:
    """Rings when the rope of the same folder is pulled, in any process."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = _inotify(folder / SIGNAL_FILE) if sys.platform == "linux" else None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def wait(self, seconds: float) -> None:
        """Return when it rings, or after `seconds`."""
        if self._descriptor is None:
            time.sleep(min(seconds, LOOK_SECONDS))
            return
        if select.select([self._descriptor], [], [], seconds)[0]:
            self._quiet()

    async def listen(self, seconds: float) -> None:
        """Do the same without blocking the event loop."""
        import asyncio  # noqa: PLC0415 -- commands that only look start without it

        if self._descriptor is None:
            await asyncio.sleep(min(seconds, LOOK_SECONDS))
            return
        loop = asyncio.get_running_loop()
        rung = loop.create_future()
        loop.add_reader(self._descriptor, lambda: rung.done() or rung.set_result(None))
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await rung
                self._quiet()
        finally:
            loop.remove_reader(self._descriptor)

    def _quiet(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._descriptor, 65536)


def _inotify(file: Path) -> int | None:
    import ctypes  # noqa: PLC0415 -- only who waits needs it

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None  # the person's inotify instances are used up: look instead
    if libc.inotify_add_watch(descriptor, os.fsencode(file), IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor
