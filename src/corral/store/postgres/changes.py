"""What the machines of a store in PostgreSQL share beside its tables: news of what was written, and locks by name."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import psycopg

from corral.world.locks import SAY_SECONDS, LockHeld

LOOK_SECONDS = 0.5  #: how often to look while the server is away
TRY_SECONDS = 0.1  #: how often to try to have a lock
LEASE_SECONDS = 60  #: a holder that says nothing for so long, because it hangs or its machine is gone, loses the lock
RENEW_SECONDS = 10.0
Connection = psycopg.Connection[dict[str, Any]]
Connect = Callable[[], Connection]

TRY = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0)) AS mine"
HOLDER = """
SELECT a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(%s, 0)
"""


class Listener:
    """The one connection of a process that listens, for all who watch; it is made when first needed."""

    def __init__(self, connect: Connect, channel: str) -> None:
        self._connect, self._channel = connect, channel
        self._db: psycopg.Connection[dict[str, Any]] | None = None
        self.watches: set[ChangeWatch] = set()
        self._readers: dict[int, int] = {}  #: descriptor -> how many tasks wait for it

    def watch(self) -> ChangeWatch:
        self.descriptor()
        found = ChangeWatch(self)
        self.watches.add(found)
        return found

    def descriptor(self) -> int | None:
        """Return what can be read when something was written; None while the server is away."""
        if self._db is None:
            try:
                self._db = self._connect()
                self._db.execute(f"LISTEN {self._channel}")  # type: ignore[arg-type] -- a name that we made
            except psycopg.Error:
                self.lose()
                return None
        return self._db.fileno()

    def hear(self) -> None:
        """Take what has arrived, and wake all who watch."""
        for each in self.watches:
            each.wake()
        try:
            if self._db is not None:
                for _ in self._db.notifies(timeout=0):
                    pass  # what they say does not matter: all watches are awake
        except psycopg.Error:
            self.lose()

    def lose(self) -> None:
        if self._db is not None:
            with contextlib.suppress(psycopg.Error):
                self._db.close()
        self._db = None

    def begin_reading(self, descriptor: int) -> None:
        import asyncio  # noqa: PLC0415 -- commands that only look start without it

        self._readers[descriptor] = self._readers.get(descriptor, 0) + 1
        if self._readers[descriptor] == 1:
            loop = asyncio.get_running_loop()

            def read() -> None:
                self.hear()
                if self._db is None:
                    loop.remove_reader(descriptor)
                    self._readers.pop(descriptor, None)

            loop.add_reader(descriptor, read)

    def end_reading(self, descriptor: int) -> None:
        import asyncio  # noqa: PLC0415

        if descriptor in self._readers:
            self._readers[descriptor] -= 1
            if not self._readers[descriptor]:
                del self._readers[descriptor]
                asyncio.get_running_loop().remove_reader(descriptor)

    def close(self) -> None:
        self.watches.clear()
        self.lose()


class ChangeWatch:
    """One who waits until any process has written."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._woken = False
        self._waiter: Any = None  #: the future that a task waits for

    def close(self) -> None:
        self._listener.watches.discard(self)

    def wake(self) -> None:
        self._woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def wait(self, seconds: float) -> None:
        """Return when something was written, or after `seconds`."""
        descriptor = self._listener.descriptor()
        if descriptor is None:
            time.sleep(min(seconds, LOOK_SECONDS))
        elif not self._woken and select.select([descriptor], [], [], seconds)[0]:
            self._listener.hear()
        self._woken = False

    async def listen(self, seconds: float) -> None:
        """Do the same without blocking the event loop."""
        import asyncio  # noqa: PLC0415

        if (descriptor := self._listener.descriptor()) is None:
            await asyncio.sleep(min(seconds, LOOK_SECONDS))
            return
        if not self._woken:
            self._waiter = asyncio.get_running_loop().create_future()
            self._listener.begin_reading(descriptor)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._waiter
            finally:
                self._listener.end_reading(descriptor)
                self._waiter = None
        self._woken = False


# --- locks by name, each held by a connection of its own


@contextlib.asynccontextmanager
async def hold_lock(
    connect: Connect, name: str, say: Callable[[str], None], holder_seconds: float
) -> AsyncGenerator[None, None]:
    """Wait for a lock, at most so long for one holder, and hold it; the server frees it when the connection ends."""
    import asyncio  # noqa: PLC0415 -- commands that only look start without it

    connection = connect()
    renewal: asyncio.Task[None] | None = None
    try:
        words = f"corral on {os.uname().nodename}, process {os.getpid()}"
        limit = f"{LEASE_SECONDS}s" if connection.info.server_version >= 140000 else "0"
        connection.execute("SELECT set_config('application_name', %s, false)", [words])
        if limit != "0":
            connection.execute("SELECT set_config('idle_session_timeout', %s, false)", [limit])
        await _wait(connection, name, say, holder_seconds)
        renewal = asyncio.create_task(_renew(connection))
        yield
    finally:
        if renewal:
            renewal.cancel()
        connection.close()


async def _wait(connection: Connection, name: str, say: Callable[[str], None], most_seconds: float) -> None:
    import asyncio  # noqa: PLC0415

    began, said, before = time.monotonic(), False, ""
    while not cast("dict[str, bool]", connection.execute(TRY, [name]).fetchone())["mine"]:
        row = connection.execute(HOLDER, [name]).fetchone()
        holder = str(row["name"]) if row else ""
        if holder and holder != before:  # another one has it
            began, said, before = time.monotonic(), False, holder
        waited = time.monotonic() - began
        words = f"{before or 'another machine'}, which holds the lock {name.partition(' ')[2]}"
        if waited >= SAY_SECONDS and not said:
            said = True
            say(f"waiting for {words}")
        if waited >= most_seconds:
            raise LockHeld(f"waited {most_seconds:.0f} s for {words}", hint="if it hangs, end it there; then try again")
        await asyncio.sleep(TRY_SECONDS)


async def _renew(connection: Connection) -> None:
    """Let the server know that the holder is alive; one that cannot has lost the lock."""
    import asyncio  # noqa: PLC0415

    with contextlib.suppress(psycopg.Error):
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            connection.execute("SELECT 1")
