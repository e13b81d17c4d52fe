"""The choice of the store that a home folder has."""

from __future__ import annotations

from pathlib import Path

from corral.store.interface import Store


def open_store(home: Path) -> Store:
    """Open the store of a home folder."""
    from corral.store.sqlite.store import Store as SqliteStore  # noqa: PLC0415 -- the only one in use is loaded

    return SqliteStore(home)


def begin_store(home: Path) -> None:
    """Begin a new store where one is missing, although earlier runs left folders there."""
    from corral.store.sqlite import missing_database  # noqa: PLC0415 -- rarely needed

    missing_database.begin(home / "corral.db")
