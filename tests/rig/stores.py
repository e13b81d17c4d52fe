"""Stores as tests open them: of the kind that the test is run with."""

import os
from pathlib import Path
from typing import cast

import psycopg

from corral.store.opening import open_store
from corral.store.parts.runs import Runs

_OPEN: list[Runs] = []


def opened(folder: Path) -> Runs:
    found = cast("Runs", open_store(folder))
    _OPEN.append(found)
    return found


def close_all() -> None:
    """Close what tests have left open."""
    while _OPEN:
        _OPEN.pop().close()


def emptied(folder: Path) -> Runs:
    """Open a store in a new folder with nothing in it: a test that tries many cases has one database for all."""
    if url := os.environ.get("CORRAL_STORE"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "TRUNCATE runs, ledger, ledger_quarters, ledger_days, limits, allowances, ancestors, mail, inbox CASCADE"
            )
    return opened(folder)
