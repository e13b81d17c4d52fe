"""A store in SQLite: transactions, named queries, and the file itself."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from corral.model.errors import ReadOnlyStore, StoreTrouble
from corral.store.parts.runs import Runs
from corral.store.records import StoreReport
from corral.store.signal import ChangeSignal, ChangeWatch
from corral.store.sql import Database, Noted, list_items, migration_files, private_folders, with_items
from corral.store.sqlite import missing_database
from corral.world import locks, machine_limits, process_identity

WORTH_VACUUM_BYTES = 4 << 20  #: bytes of a database that are worth the work of giving them back
LOOK_SECONDS = 3.0  #: how often a process that waits to write looks who keeps it waiting
PAGE = 5000  #: rows of a table that are read at once
BUSY_SECONDS = 60.0  #: a machine under load may keep who holds it from going on for long
MAKES = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)", re.MULTILINE)


class SqliteDatabase(Database):
    """One open file. Use it from one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "sqlite")
        self.path = folder / "corral.db"
        self._db, self._writable = connect(self.path)
        self._file = missing_database.identity(self.path)
        self._db.execute("PRAGMA busy_timeout = 5")  # what takes longer waits below
        self._rope = ChangeSignal(folder) if self._writable else None

    @property
    def writable(self) -> bool:
        return self._writable

    def close(self) -> None:
        self.flush()
        self._db.close()
        if self._rope:
            self._rope.close()
            self._rope = None

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

    def flush(self) -> None:
        """Write events down, for others to see; what the disk has not got yet goes with the next change of state."""
        if self._waiting and not self._depth:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction():
                    pass
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

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
            cursor = self._db.execute(f'SELECT {_quoted(columns)} FROM "{name}"')  # noqa: S608 -- names of our own
            while page := cursor.fetchmany(PAGE):
                yield [tuple(row) for row in page]

    def fill(self, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(columns))
        query = f'INSERT INTO "{name}" ({_quoted(columns)}) VALUES ({marks})'  # noqa: S608 -- names of our own
        with translate_errors(self.path):
            self._db.executemany(query, rows)

    def continue_numbers(self) -> None:
        """Leave it to SQLite: it looks at the numbers that are there."""

    def watch(self) -> ChangeWatch:
        """Return what wakes whenever any process has written."""
        return ChangeWatch(self.folder)

    def refusal(self) -> ReadOnlyStore:
        """Return why nothing can be written here."""
        return write_refusal(self.path)


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join(f'"{each}"' for each in columns)


def connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the database at `path`, bringing an older one up to date first; return it and whether it can be written."""
    with translate_errors(path):
        if path.exists() and not is_writable(path):
            return _for_reading(path), False
    _make_folders(path)
    missing_database.refuse(path)
    with translate_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        _set_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA case_sensitive_like = ON")  # as other databases have it
        path.chmod(0o600)  # prompts and outputs are in it
        _migrate(connection, path)
    return connection, True


def _set_wal(connection: sqlite3.Connection) -> None:
    """Let readers and writers work side by side; SQLite does not wait here for another process that does it first."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.0002, 0.004))  # noqa: S311 -- not for a secret
        else:
            return


def _make_folders(path: Path) -> None:
    if not is_writable(path):
        raise write_refusal(path)
    private_folders(path.parent)


def _for_reading(path: Path) -> sqlite3.Connection:
    """Open a database that cannot be written; of one with an older schema a copy is brought up to date and read."""
    connection = open_read_only(path)
    steps = migration_files()
    if not steps.keys() <= _applied_steps(connection, steps):
        connection.close()
        connection = open_copy(path)
        _migrate(connection, path)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA case_sensitive_like = ON")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    steps = migration_files()
    known = max(steps)
    have = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if have > known:
        raise StoreTrouble(
            f"{path} was written by a newer corral (schema {have}; this one knows {known})",
            hint="upgrade corral, or set CORRAL_HOME to another folder",
        )
    if steps.keys() <= _applied_steps(connection, steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        taken = _applied_steps(connection, steps)  # another process may have come first
        names = _migration_names(connection)
        unsure = 0 if "migrations" in names else have  # up to this some steps were taken in part, or not at all
        connection.execute("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY) STRICT")
        for number, file in steps.items():
            for statement in () if number in taken else _statements(file.read_text(encoding="utf-8")):
                made = MAKES.search(statement)
                if number > unsure or (made and made.group(1) not in names):
                    connection.execute(statement)
        connection.executemany("INSERT OR IGNORE INTO migrations VALUES (?)", [(number,) for number in steps])
        connection.execute(f"PRAGMA user_version = {known}")  # an older corral looks at this
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself may have rolled it back
            connection.execute("ROLLBACK")
        raise


def _applied_steps(connection: sqlite3.Connection, steps: Mapping[int, Path]) -> set[int]:
    """Return the steps that this database has behind it. They land in any order: the highest tells of no other."""
    names = _migration_names(connection)
    if "migrations" in names:
        return {row[0] for row in connection.execute("SELECT number FROM migrations")}
    have = int(connection.execute("PRAGMA user_version").fetchone()[0])
    return {number for number, file in steps.items() if number <= have and names >= {*MAKES.findall(file.read_text())}}


def _migration_names(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


#: sqlite's words -> what to do about it.
REMEDIES = (
    ("locked", "another process holds it; look for one with `corral ls`, or try again"),
    ("readonly", "make the file and its folder writable for you, or set CORRAL_HOME"),
    ("unable to open", "set CORRAL_HOME to a folder you may write to"),
    ("full", "make room on that disk; nothing stored is lost: then `corral resume @last`"),
    ("i/o error", "look at the disk; `corral export > backup.jsonl` saves what can be read"),
    ("malformed", "save what can be read: `corral export > backup.jsonl`; then move the file away"),
    ("not a database", "move that file away, then begin a new one: corral doctor --new-store"),
)


def _size(path: Path) -> int:
    """Return the size of the larger of a database's two files."""
    sizes = [0]
    for name in (path.name, path.name + "-wal"):
        with contextlib.suppress(OSError):
            sizes.append(path.with_name(name).stat().st_size)
    return max(sizes)


@contextlib.contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Turn sqlite's errors into ours, each with a way out."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = str(error)
        if short := machine_limits.of_file(path, _size(path)):
            raise StoreTrouble(f"{path}: {words}: {short}", hint=short.hint) from error
        if "locked" in words and (pid := process_identity.stopped_holder(path.with_name(path.name + "-shm"))):
            hint = f"let it continue: kill -CONT {pid}; or end it: kill -9 {pid}, and `corral resume` its runs"
            raise StoreTrouble(f"{path}: process {pid} is stopped (SIGSTOP) while it writes", hint=hint) from error
        sign = "full" if machine_limits.has_no_room(path.parent) else words.lower()  # sqlite calls it by many names
        hint = next((remedy for known, remedy in REMEDIES if known in sign), "run `corral doctor`")
        raise StoreTrouble(f"{path}: {words}", hint=hint) from error


def is_writable(path: Path) -> bool:
    """Return whether a database can be written where it is, or made there; SQLite writes beside it too."""
    folder = next((each for each in (path.parent, *path.parents) if each.exists()), path.parent)
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def write_refusal(path: Path) -> ReadOnlyStore:
    """Return the error for a command that would write to this database."""
    return ReadOnlyStore(
        f"the state folder {path.parent} cannot be written to: runs can be looked at, not started or changed",
        hint="make it writable for you, or set CORRAL_HOME to another folder",
    )


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a database for reading alone.

    SQLite reads one whose write-ahead log holds something only with the index of that log beside it. Where the index
    is missing and cannot be made, a copy is read.
    """
    connection = _connect_read_only(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            return open_copy(path)
        return _connect_read_only(path, "mode=ro&immutable=1")
    return connection


def open_copy(path: Path) -> sqlite3.Connection:
    """Open a copy of a database, which is removed again as soon as it is open."""
    with tempfile.TemporaryDirectory(prefix="corral-") as folder:
        for name in (path.name, path.name + "-wal"):
            if path.with_name(name).exists():
                shutil.copyfile(path.with_name(name), Path(folder, name))
        connection = sqlite3.connect(Path(folder, path.name), isolation_level=None)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = MEMORY")  # with nothing beside it, it needs no name any more
    return connection


def _connect_read_only(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None)


class Store(Runs, SqliteDatabase):
    """Everything of one state folder, in one file."""
