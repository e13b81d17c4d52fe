"""A database that is gone while what belongs to it is still there: it is never replaced without the user's word."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from pathlib import Path

from corral.model.errors import BadRequest, MissingStore, StoreTrouble

LEFT = ("logs", "workspaces")  #: folders with an entry for each attempt, once there is a database
ATTEMPT = re.compile(r"[0-9a-z]{12}-[0-9]+")
MARK = "new-store"  #: a user has said that a new database may be begun
LOOK_SECONDS = 5.0
BRANCHES = "the work of its attempts is on branches corral/... of their repositories"


def refuse(path: Path) -> None:
    """Raise if there is no database but earlier runs left something beside it."""
    mark = path.parent / MARK
    if not (state := _state(path)) or not (left := _leftovers(path.parent)):
        mark.unlink(missing_ok=True)
        return
    if not mark.exists() and _state(path):  # asked again: another process may have begun one since
        raise MissingStore(
            f"the database {path} is {state}, but earlier runs left {', '.join(left)} there: no new one is begun",
            hint="put the file back from a copy, or begin a new one: corral doctor --new-store; " + BRANCHES,
        )


def begin(path: Path) -> None:
    """Let a new database be begun where the old one is missing or empty."""
    if _state(path) not in ("missing", "empty"):
        raise BadRequest(f"{path} is there: no new one is begun", hint="to begin anew, move that file away first")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in (path.name + "-wal", path.name + "-shm"):  # of the old one: the new one must not read them
        if path.with_name(name).exists():
            path.with_name(name).rename(path.with_name(f"{name}.old"))
    (path.parent / MARK).touch(mode=0o600)


def removal_error(path: Path) -> StoreTrouble:
    """Return the error for a database that went away while it was in use."""
    return StoreTrouble(f"the database {path} was removed or replaced while corral was using it", hint=BRANCHES)


def identity(path: Path) -> tuple[int, int] | None:
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
