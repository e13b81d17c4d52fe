"""A database that can be read but not written: on a read-only file system, or without permission to write."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import quote

from corral.model.errors import ReadOnlyStore


def is_writable(path: Path) -> bool:
    """Return whether a database can be written where it is, or made there; SQLite writes beside it too."""
    folder = next((each for each in (path.parent, *path.parents) if each.exists()), path.parent)
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def refusal(path: Path) -> ReadOnlyStore:
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
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            return open_copy(path)
        return _connect(path, "mode=ro&immutable=1")
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


def _connect(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None)
