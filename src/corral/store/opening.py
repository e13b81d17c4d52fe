"""The choice of the store that a home folder has."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config.paths import user_file
from corral.model.errors import RefusedStore
from corral.store.interface import Store

SERVERS = ("postgresql://", "postgres://")


def store_url() -> str | None:
    """Return the address of the store that the user names; None: SQLite in the state folder."""
    if named := os.environ.get("CORRAL_STORE"):
        return named
    try:
        text = user_file().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "store" not in text:
        return None
    from corral.config.loader import stored_at  # noqa: PLC0415 -- most settings name no store

    return stored_at()


def open_store(home: Path) -> Store:
    """Open the store of a home folder."""
    if url := store_url():
        return open_server(home, url)
    from corral.store.sqlite.store import Store as SqliteStore  # noqa: PLC0415 -- the only one in use is loaded

    return SqliteStore(home)


def open_server(home: Path, url: str) -> Store:
    """Open a store in PostgreSQL, whose files are in a home folder."""
    if not url.startswith(SERVERS):
        raise RefusedStore(
            f"`{url.partition(':')[0]}` is no kind of store",
            hint="write postgresql://USER@HOST/DATABASE in CORRAL_STORE or [store] url; SQLite needs neither",
        )
    try:
        from corral.store.postgres.store import Store as PostgresStore  # noqa: PLC0415 -- slow, and only some have it
    except ImportError as error:
        raise RefusedStore(
            f"a store in PostgreSQL needs psycopg: {error}", hint="pip install 'corral[postgres]'"
        ) from error
    return PostgresStore(home, url)


def begin_store(home: Path) -> None:
    """Begin a new store where one is missing, although earlier runs left folders there."""
    from corral.store.sqlite import missing_database  # noqa: PLC0415 -- rarely needed

    missing_database.begin(home / "corral.db")
