"""The file of a SQLite database: opened, brought up to date, read where it is read-only, never begun anew unasked."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from corral.model.errors import BadRequest, MissingStore, ReadOnlyStore, StoreTrouble
from corral.store.sql import migration_files, private_folders
from corral.world import machine_limits, process_identity

BUSY_SECONDS = 60.0  #: a machine under load may stop the holder of the lock for long
MAKES = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)", re.MULTILINE)
LEFT = ("logs", "workspaces")  #: folders with an entry for each attempt, once there is a database
ATTEMPT = re.compile(r"[0-9a-z]{12}-[0-9]+")
NEW_MARK = "new-store"  #: a user has said that a new database may be begun
LOOK_SECONDS = 5.0
BRANCHES = "the work of its attempts is on branches corral/... of their repositories"


def connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the database at `path`, bringing an older one up to date first; return it and whether it can be written."""
    with translate_errors(path):
        if path.exists() and not is_writable(path):
            return _for_reading(path), False
    _make_folders(path)
    refuse_missing(path)
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
    """Return the steps that this database has behind it. They merge in any order: the highest tells of no other."""
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


def refuse_missing(path: Path) -> None:
    """Raise if there is no database but earlier runs left something beside it."""
    mark = path.parent / NEW_MARK
    if not (state := _state(path)) or not (left := _leftovers(path.parent)):
        mark.unlink(missing_ok=True)
        return
    if not mark.exists() and _state(path):  # asked again: another process may have begun one since
        raise MissingStore(
            f"the database {path} is {state}, but earlier runs left {', '.join(left)} there: no new one is begun",
            hint="put the file back from a copy, or begin a new one: corral doctor --new-store; " + BRANCHES,
        )


def allow_new(path: Path) -> None:
    """Let a new database be begun where the old one is missing or empty."""
    if _state(path) not in ("missing", "empty"):
        raise BadRequest(f"{path} is there: no new one is begun", hint="to begin anew, move that file away first")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in (path.name + "-wal", path.name + "-shm"):  # of the old one: the new one must not read them
        if path.with_name(name).exists():
            path.with_name(name).rename(path.with_name(f"{name}.old"))
    (path.parent / NEW_MARK).touch(mode=0o600)


def removal_error(path: Path) -> StoreTrouble:
    """Return the error for a database that went away while it was in use."""
    return StoreTrouble(f"the database {path} was removed or replaced while corral was using it", hint=BRANCHES)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from any other of the same name; None if it is gone or empty."""
    try:
        about = path.stat()
    except OSError:
        return None
    return (about.st_dev, about.st_ino) if about.st_size else None


def _state(path: Path) -> str:
    """Say what is wrong with a database that holds nothing of ours; empty where it holds something, or cannot say."""
    if not path.exists():
        return "missing"
    if not path.stat().st_size:
        return "empty"
    try:
        connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True, timeout=LOOK_SECONDS)
        with contextlib.closing(connection):
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:
        return ""  # no database, or a damaged one: opening it says so
    return "" if "runs" in names else "another program's" if names else "empty"


def _leftovers(folder: Path) -> list[str]:
    found: list[str] = []
    for name in LEFT:
        with contextlib.suppress(OSError):
            names = os.listdir(folder / name)  # noqa: PTH208 -- there may be thousands
            if count := sum(ATTEMPT.fullmatch(each) is not None for each in names):
                found.append(f"{name}/ ({count})")
    return found
