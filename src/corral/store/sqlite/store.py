"""A store in SQLite."""

from __future__ import annotations

from corral.store.parts.runs import Runs
from corral.store.sqlite.database import SqliteDatabase


class Store(Runs, SqliteDatabase):
    """Everything of one state folder, in one file."""
