"""Open the database: create, migrate, or say plainly why not and what to do."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from corral.model.errors import StoreTrouble
from corral.store.sqlite import missing_database, read_only
from corral.world import machine_limits, process_identity

BUSY_SECONDS = 60.0  #: a machine under load may keep who holds it from going on for long
MIGRATIONS = Path(__file__).parents[1] / "migrations"
PRIVATE = ("folders", "logs")  #: copies of files and what agents said: closed even where the state folder is open
MAKES = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)", re.MULTILINE)


def connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the database at `path`, bringing an older one up to date first; return it and whether it can be written."""
    with translate_errors(path):
        if path.exists() and not read_only.is_writable(path):
            return _for_reading(path), False
    _make_folders(path)
    missing_database.refuse(path)
    with translate_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        path.chmod(0o600)  # prompts and outputs are in it
        _migrate(connection, path)
    return connection, True


def _make_folders(path: Path) -> None:
    if not read_only.is_writable(path):
        raise read_only.refusal(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in PRIVATE:
            (path.parent / name).mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreTrouble(
            f"the state folder {path.parent} cannot be made: {error.strerror}",
            hint="set CORRAL_HOME to a folder you may write to",
        ) from error


def _for_reading(path: Path) -> sqlite3.Connection:
    """Open a database that cannot be written; of one with an older schema a copy is brought up to date and read."""
    connection = read_only.open_read_only(path)
    steps = {int(file.stem): file for file in sorted(MIGRATIONS.glob("*.sql"))}
    if not steps.keys() <= _applied_steps(connection, steps):
        connection.close()
        connection = read_only.open_copy(path)
        _migrate(connection, path)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = ON")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    steps = {int(file.stem): file for file in sorted(MIGRATIONS.glob("*.sql"))}
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
        names = _names(connection)
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
    names = _names(connection)
    if "migrations" in names:
        return {row[0] for row in connection.execute("SELECT number FROM migrations")}
    have = int(connection.execute("PRAGMA user_version").fetchone()[0])
    return {number for number, file in steps.items() if number <= have and names >= {*MAKES.findall(file.read_text())}}


def _names(connection: sqlite3.Connection) -> set[str]:
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
