"""One open SQLite database: transactions, named queries, an event log written in batches."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from corral.model import ENCODER
from corral.model.errors import ReadOnlyStore, StoreTrouble
from corral.model.events import Event, StoredEvent
from corral.store.records import StoreReport
from corral.store.signal import ChangeSignal, ChangeWatch
from corral.store.sqlite import missing_database, read_only
from corral.store.sqlite.connection import BUSY_SECONDS, connect, translate_errors
from corral.world import process_identity, run_fence

WORTH_VACUUM_BYTES = 4 << 20  #: bytes of a database that are worth the work of giving them back
LOOK_SECONDS = 3.0  #: how often a process that waits to write looks who keeps it waiting
BATCH = 256  #: events held back at most; a crash of the machine can lose these, a crash of an agent none


class Database:
    """One open database. Use it from one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "corral.db"
        self._db, self.writable = connect(self.path)
        self._file = missing_database.identity(self.path)
        self._db.execute("PRAGMA busy_timeout = 5")  # what takes longer waits below
        self._rope = ChangeSignal(folder) if self.writable else None
        self._sql = _queries()
        self._waiting: list[tuple[str, str | None, str | None, float, bytes]] = []
        self._waiting_epochs: dict[str, int] = {}  #: of runs with waiting events: the epoch these belong to
        self._depth = 0

    def close(self) -> None:
        self.flush()
        self._db.close()
        if self._rope:
            self._rope.close()

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Do all or nothing; events noted before are written with it, so the log's order is the order of things."""
        if self._depth:
            yield
            return
        if not self.writable:
            raise read_only.refusal(self.path)
        with translate_errors(self.path):
            self._patiently("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                run_fence.check()
                self._write_waiting()
                yield
                self._write_waiting()
                self._db.execute("COMMIT")
                if self._rope:
                    self._rope.pull()
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def note(self, run: str, event: Event, *, at: float, node: str | None = None, attempt: str | None = None) -> None:
        """Append an event; it is durable after the next transaction or `flush`."""
        self.note_encoded(run, ENCODER.encode(event), at=at, node=node, attempt=attempt)

    def note_encoded(self, run: str, body: bytes, *, at: float, node: str | None, attempt: str | None) -> None:
        """Append an event that is encoded already."""
        self._waiting.append((run, node, attempt, at, body))
        if (mine := run_fence.current()) and mine.run == run:
            self._waiting_epochs[run] = mine.epoch
        if len(self._waiting) >= BATCH and not self._depth:
            self.flush()

    def flush(self) -> None:
        """Write events down, for others to see; what the disk has not got yet goes with the next change of state."""
        if self._waiting and not self._depth:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction():
                    pass
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def _write_waiting(self) -> None:
        if self._waiting:
            lost = {run for run, epoch in self._waiting_epochs.items() if self.epoch(run) != epoch}
            kept = [row for row in self._waiting if row[0] not in lost] if lost else self._waiting
            self._db.executemany(self._sql["add_event"], kept)
            self._waiting.clear()
            self._waiting_epochs.clear()

    def events(self, run: str, after: int = 0, most: int = 5000) -> list[StoredEvent]:
        rows = self.rows("events", run=run, after=after, most=most)
        return [StoredEvent(row["seq"], row["at"], row["node"], row["attempt"], row["body"]) for row in rows]

    def epoch(self, run: str) -> int | None:
        """Return how often a run has changed hands; None if there is no such run."""
        found = self.rows("epoch", id=run)
        return cast("int", found[0]["epoch"]) if found else None

    def rows(self, name: str, /, **values: object) -> list[sqlite3.Row]:
        with translate_errors(self.path):
            return self._patiently(self._sql[name], values).fetchall()

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

    def data_version(self) -> int:
        """Return a number that differs when another process has written."""
        with translate_errors(self.path):
            return cast("int", self._db.execute("PRAGMA data_version").fetchone()[0])

    def blocked_by(self) -> int | None:
        """Return the process that was stopped by a signal while it wrote, so that nobody else can write."""
        return process_identity.stopped_holder(self.path.with_name(self.path.name + "-shm"))

    def removal_error(self) -> StoreTrouble | None:
        """Return an error if the file of this database was removed, replaced or emptied since it was opened."""
        return None if missing_database.identity(self.path) == self._file else missing_database.removal_error(self.path)

    def integrity(self) -> str:
        """Return `ok`, or what sqlite finds wrong."""
        try:
            return cast("str", self._db.execute("PRAGMA integrity_check").fetchone()[0])
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

    def watch(self) -> ChangeWatch:
        """Return what wakes whenever any process has written."""
        return ChangeWatch(self.folder)

    def refusal(self) -> ReadOnlyStore:
        """Return why nothing can be written here."""
        return read_only.refusal(self.path)


def _queries() -> dict[str, str]:
    texts = (file.read_text(encoding="utf-8") for file in sorted((Path(__file__).parents[1] / "queries").glob("*.sql")))
    return {name: query for text in texts for name, query in _name_queries(text.split("-- name: ")[1:])}


def _name_queries(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        name, _, query = part.partition("\n")
        yield name.strip(), query.strip()
