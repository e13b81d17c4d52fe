"""A store in SQLite: transactions, named queries, and what wakes other processes when something was written."""

from __future__ import annotations

import contextlib
import os
import random
import select
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from corral.model.errors import ReadOnlyStore, StoreTrouble
from corral.store.parts.runs import Runs
from corral.store.records import StoreReport
from corral.store.sql import Database, Noted, list_items, with_items
from corral.store.sqlite import database_file
from corral.store.sqlite.database_file import BUSY_SECONDS, connect, translate_errors, write_refusal
from corral.world import locks, process_identity

WORTH_VACUUM_BYTES = 4 << 20  #: bytes of a database that are worth the work of giving them back
LOOK_SECONDS = 3.0  #: how often a process that waits to write looks who keeps it waiting
PAGE = 5000  #: rows of a table that are read at once
IN_ATTRIB = 0x4
SIGNAL_FILE = "bell"
POLL_SECONDS = 0.05  #: how often to look where nothing can wake us


class SqliteDatabase(Database):
    """One open file. Use it from one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "sqlite")
        self.path = folder / "corral.db"
        self._db, self._writable = connect(self.path)
        self._file = database_file.file_identity(self.path)
        self._db.execute("PRAGMA busy_timeout = 5")  # what takes longer waits below
        self._rope = ChangeSignal(folder) if self._writable else None
        self._idle_watches: list[int] = []

    @property
    def writable(self) -> bool:
        return self._writable

    def close(self) -> None:
        self.flush()
        self._db.close()
        if self._rope:
            self._rope.close()
            self._rope = None
        while self._idle_watches:
            os.close(self._idle_watches.pop())

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Do all or nothing; events noted before are written with it, so the log's order is the order of things."""
        if self._depth:
            yield
            return
        if not self.writable:
            raise write_refusal(self.path)
        with translate_errors(self.path):
            self._patiently("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                locks.check()
                changes = self._db.total_changes
                self._write_waiting()
                yield
                self._write_waiting()
                self._db.execute("COMMIT")
                if self._rope and self._db.total_changes != changes:
                    self._rope.pull()
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    @contextlib.contextmanager
    def visible_transaction(self) -> Generator[None]:
        if self._depth:
            yield
            return
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            with self.transaction():
                yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def flush(self) -> None:
        """Write events down, for others to see; what the disk has not got yet goes with the next change of state."""
        if self._waiting and not self._depth:
            with self.visible_transaction():
                pass  # a transaction writes what waits

    def _insert_events(self, events: Sequence[Noted]) -> None:
        self._db.executemany(self._sql["add_event"], events)

    def rows(self, name: str, /, **values: object) -> list[sqlite3.Row]:
        with translate_errors(self.path):
            return self._patiently(self._sql[name], values).fetchall()

    def rows_of(self, name: str, items: Sequence[str], /, **values: object) -> list[sqlite3.Row]:
        with translate_errors(self.path):
            query = with_items(self._sql[name], len(items))
            return self._patiently(query, {**list_items(items), **values}).fetchall()

    def do(self, name: str, /, **values: object) -> int:
        return self._db.execute(self._sql[name], cast("dict[str, Any]", values)).rowcount

    def _patiently(self, statement: str, values: Mapping[str, object] | None = None) -> sqlite3.Cursor:
        """Wait for other processes in short steps of uneven length: SQLite's own grow, and who came first starves."""
        started = time.monotonic()
        until, look_at = started + BUSY_SECONDS, started + LOOK_SECONDS
        while True:
            try:
                return self._db.execute(statement, cast("dict[str, Any]", values or {}))
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or self._depth or time.monotonic() > until:
                    raise
                if time.monotonic() > look_at:
                    look_at += LOOK_SECONDS
                    if self.blocked_by() is not None:
                        raise  # it would be in vain to wait
                time.sleep(random.uniform(0.0002, 0.004))  # noqa: S311 -- not for a secret

    def lock_on_server(
        self,
        name: str,  # noqa: ARG002 -- the lock file that all processes of this machine share suffices
        say: locks.Say,  # noqa: ARG002
        holder_seconds: float,  # noqa: ARG002
    ) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    def data_version(self) -> int:
        """Return a number that differs when another process has written."""
        with translate_errors(self.path):
            return cast("int", self._db.execute("PRAGMA data_version").fetchone()[0])

    def blocked_by(self) -> int | None:
        """Return the process that was stopped by a signal while it wrote, so that nobody else can write."""
        return process_identity.stopped_holder(self.path.with_name(self.path.name + "-shm"))

    def removal_error(self) -> StoreTrouble | None:
        """Return an error if the file of this database was removed, replaced or emptied since it was opened."""
        return None if database_file.file_identity(self.path) == self._file else database_file.removal_error(self.path)

    def integrity(self) -> str:
        """Return `ok`, or what sqlite finds wrong, or what is wrong with the sums of the ledger."""
        try:
            found = cast("str", self._db.execute("PRAGMA integrity_check").fetchone()[0])
            return self.check_sums() if found == "ok" else found
        except sqlite3.DatabaseError as error:
            return str(error)

    def report(self) -> StoreReport:
        """Look through the whole store: soundness, version, size."""
        found = self.integrity()
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return StoreReport(
            kind="sqlite",
            where=str(self.path),
            sound=found == "ok",
            problem=None if found == "ok" else found,
            writable=self.writable,
            schema=cast("int", self._db.execute("PRAGMA user_version").fetchone()[0]),
            bytes=sum(file.stat().st_size for file in files if file.exists()),
            **{name: cast("int", self.rows(f"stored_{name}")[0]["count"]) for name in ("runs", "attempts", "events")},
        )

    def give_back(self) -> None:
        """Give room that deleted rows left back to the disk, if it is much; not while others are at work here."""
        pages, free, size = (
            cast("int", self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        if free * size > WORTH_VACUUM_BYTES and free * 4 > pages:
            with contextlib.suppress(sqlite3.OperationalError):
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- copies of whole tables

    def columns(self) -> dict[str, list[str]]:
        listed = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        names = [cast("str", row["name"]) for row in self._db.execute(listed)]
        return {
            name: [row["name"] for row in self._db.execute("SELECT name FROM pragma_table_info(?)", (name,))]
            for name in names
            if not name.startswith("sqlite_")
        }

    @contextlib.contextmanager
    def snapshot(self) -> Generator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def table(self, name: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        with translate_errors(self.path):
            cursor = self._db.execute(f'SELECT {_quote_columns(columns)} FROM "{name}"')  # noqa: S608 -- names of our own
            while page := cursor.fetchmany(PAGE):
                yield [tuple(row) for row in page]

    def fill(self, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(columns))
        query = f'INSERT INTO "{name}" ({_quote_columns(columns)}) VALUES ({marks})'  # noqa: S608 -- names of our own
        with translate_errors(self.path):
            self._db.executemany(query, rows)

    def continue_numbers(self) -> None:
        """Leave it to SQLite: it looks at the numbers that are there."""

    def watch(self) -> ChangeWatch:
        """Return what wakes whenever any process has written."""
        return ChangeWatch(self.folder, self._idle_watches)

    def refusal(self) -> ReadOnlyStore:
        """Return why nothing can be written here."""
        return write_refusal(self.path)


def _quote_columns(columns: Sequence[str]) -> str:
    return ", ".join(f'"{each}"' for each in columns)


class Store(Runs, SqliteDatabase):
    """Everything of one state folder, in one file."""


class ChangeSignal:
    """Pulled after a commit; SQLite's own files change before a commit can be seen."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / SIGNAL_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def pull(self) -> None:
        with contextlib.suppress(OSError):  # a full or read-only disk: then watchers look once a second
            os.utime(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class ChangeWatch:
    """Rings when the rope of the same folder is pulled, in any process."""

    def __init__(self, folder: Path, idle: list[int]) -> None:
        """Use a descriptor that another one of this process has left in `idle`; it is left there again."""
        self._idle, self._descriptor = idle, None
        if idle:
            self._descriptor = idle.pop()
            self._quiet()  # what rang meanwhile
        elif sys.platform == "linux":
            self._descriptor = _inotify(folder / SIGNAL_FILE)

    def close(self) -> None:
        """Leave the descriptor to the next one: the kernel makes who closes it wait for many milliseconds."""
        if self._descriptor is not None:
            self._idle.append(self._descriptor)
            self._descriptor = None

    def wait(self, seconds: float) -> None:
        """Return when it rings, or after `seconds`."""
        if self._descriptor is None:
            time.sleep(min(seconds, POLL_SECONDS))
            return
        if select.select([self._descriptor], [], [], seconds)[0]:
            self._quiet()

    async def listen(self, seconds: float) -> None:
        """Do the same without blocking the event loop."""
        import asyncio  # noqa: PLC0415 -- commands that only look start without it

        if self._descriptor is None:
            await asyncio.sleep(min(seconds, POLL_SECONDS))
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
        return None  # the user's inotify instances are used up: look instead
    if libc.inotify_add_watch(descriptor, os.fsencode(file), IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor
