"""The choice of the store that a home folder has, and copies of whole stores."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from corral.config import paths
from corral.config.paths import user_file
from corral.model.errors import BadRequest, RefusedStore
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.store.sql import Database

FIRST = ("runs", "tokens")  #: tables that others refer to
DERIVED = (
    "migrations",
    "engines",
    "fact_words",
    "ledger_quarters",
    "ledger_days",
    "ledger_parts",
)  #: tables that a new store has, or that are made of others
SERVERS = ("postgresql://", "postgres://")


def store_url() -> str | None:
    """Return the address of the store that the user names; None: SQLite in the state folder."""
    if named := os.environ.get("CORRAL_STORE"):
        return named
    try:
        content = paths.read_settings(user_file())
    except BadRequest:  # the next reader of the settings says what is wrong
        return None
    if b"store" not in content:
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
    from corral.store.sqlite import database_file  # noqa: PLC0415 -- rarely needed

    database_file.allow_new(home / "corral.db")


def copy_store(store: Store, home: Path, to: str, say: Callable[[str], None]) -> None:
    """Copy everything to an empty store: a database in PostgreSQL, or SQLite in a state folder (`sqlite:///FOLDER`)."""
    busy = [run for run, _, owner in store.pages.owned_runs() if owner]
    if busy:
        raise RefusedStore(f"run {busy[0]} is at work: its store cannot be copied", hint="stop it: corral stop RUN")
    target = _open_target(home, to)
    try:
        if not target.is_empty():
            raise RefusedStore("the store to copy to is not empty", hint="name an empty database, or an empty folder")
        _copy_tables(cast("Database", store), cast("Database", target), say)
    finally:
        target.close()


def _open_target(home: Path, to: str) -> Store:
    if not to.startswith("sqlite:///"):
        return open_server(home, to)
    from corral.store.sqlite.store import Store as SqliteStore  # noqa: PLC0415 -- rarely needed

    return SqliteStore(Path(to.removeprefix("sqlite://").removesuffix("/corral.db")))


def _copy_tables(source: Database, target: Database, say: Callable[[str], None]) -> None:
    known = target.columns()
    tables = {name: fields for name, fields in source.columns().items() if name in known}
    names = [*FIRST, *sorted(name for name in tables if name not in (*FIRST, *DERIVED) and "fact_words" not in name)]
    with source.snapshot(), target.transaction():
        for name in names:
            count = 0
            for page in source.table(name, tables[name]):
                target.fill(name, tables[name], page)
                count += len(page)
            if count:
                say(f"{name}: {count} rows")
        for page in source.table("facts", ["number", "text"]):
            for number, text in page:
                target.do("index_fact", number=number, text=text)
        target.continue_numbers()
