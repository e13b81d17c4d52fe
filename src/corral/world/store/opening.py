"""Open the database: create, migrate, or say plainly why not and what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Generator, Iterator
from pathlib import Path

from corral.errors import StoreTrouble

BUSY_SECONDS = 15.0
MIGRATIONS = Path(__file__).parent / "migrations"


def connect(path: Path) -> sqlite3.Connection:
    """Open the database at `path`, bringing an older one up to date first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreTrouble(
            f"the state folder {path.parent} cannot be made: {error.strerror}",
            hint="set CORRAL_HOME to a folder you may write to",
        ) from error
    with translated(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        path.chmod(0o600)  # prompts and outputs are in it
        _migrate(connection, path)
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    steps = {int(file.stem): file for file in sorted(MIGRATIONS.glob("*.sql"))}
    known = max(steps)
    have = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if have == known:
        return
    if have > known:
        raise StoreTrouble(
            f"{path} was written by a newer corral (schema {have}; this one knows {known})",
            hint="upgrade corral, or set CORRAL_HOME to another folder",
        )
    for number, file in steps.items():
        if number <= have:
            continue
        script = file.read_text(encoding="utf-8")
        # Another process may have come first: the version is read again inside the transaction.
        connection.execute("BEGIN IMMEDIATE")
        try:
            if int(connection.execute("PRAGMA user_version").fetchone()[0]) < number:
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


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
    ("not a database", "move that file away; corral makes a new one"),
)


def _no_room(path: Path) -> bool:
    """Tell a full disk, which sqlite calls by many names."""
    try:
        return os.statvfs(path.parent).f_bavail < 16
    except OSError:
        return False


@contextlib.contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn sqlite's errors into ours, each with a way out."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = str(error)
        sign = "full" if _no_room(path) else words.lower()
        hint = next((remedy for known, remedy in REMEDIES if known in sign), "run `corral doctor`")
        raise StoreTrouble(f"{path}: {words}", hint=hint) from error
