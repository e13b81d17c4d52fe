"""A store of 1,000,000 runs and 20,000,000 events: what commands take there, against a store of 100 runs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measure import Promise, interleaved
from bench.startup import store_runs
from corral.model import Attempt, Cost
from corral.model.events import Said
from corral.model.money import LedgerLine
from corral.rules.text import names
from corral.store.parts.runs import Runs
from corral.store.sqlite.store import Store

RUNS, FEW = 1_000_000, 100
EVENTS = 20  #: of each run
BLOCK = 10_000  #: runs that are stored at once
TABLES = ("runs", "nodes", "attempts", "ledger", "events")
WORDS = "The failing test compares naive and aware datetimes, so I make both aware and run it again. " * 3
#: Commands, and the most that they may take of what they take with few runs.
COMMANDS: dict[str, tuple[tuple[str, ...], float]] = {
    "ls": (("ls",), 1.5),
    "ls with options": (("ls", "--status", "done", "--agent", "claude"), 1.5),
    "show": (("show", "@last"), 1.5),
    "logs": (("logs", "@last"), 1.5),
    "cost": (("cost",), 2.0),
}


def measure() -> list[Promise]:
    corral = str(Path(sys.executable).with_name("corral"))
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        few, many = Path(name, "few"), Path(name, "many")
        for folder, count in ((few, FEW), (many, RUNS)):
            fill(folder, count)
        promises = [_listing(corral, many)]
        for words, (command, most) in COMMANDS.items():
            small, large = interleaved(
                5, lambda c=command: _start(few, corral, *c), lambda c=command: _start(many, corral, *c)
            )
            promises.append(Promise(f"corral {words}, {RUNS:,} runs stored", f"{FEW} runs stored", large / small, most))
    return promises


def _listing(corral: str, folder: Path) -> Promise:
    nothing, listing = interleaved(
        15, lambda: _start(folder, sys.executable, "-c", "pass"), lambda: _start(folder, corral, "ls")
    )
    return Promise(f"corral ls, {RUNS:,} runs stored", "python -c pass", listing / nothing, 4.0)


def _start(home: Path, *argv: str) -> None:
    subprocess.run(argv, env={**os.environ, "CORRAL_HOME": str(home)}, check=True, capture_output=True)


def fill(folder: Path, count: int) -> None:
    """Make a store of runs that are over: one as an engine stores it, and copies of its rows under other names."""
    store_runs(folder, 1)
    store = Store(folder)
    run = store_more(store)
    store.close()
    database = sqlite3.connect(folder / "corral.db", isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    rows = {table: _rows(database, table) for table in TABLES}
    for runs in names_of(count, BLOCK):
        database.execute("BEGIN")
        for table, (columns, found) in rows.items():
            marks = ", ".join("?" * len(columns))
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
            database.executemany(insert, copies(found, run, runs))
        database.execute("COMMIT")
    database.close()


def names_of(count: int, block: int) -> Iterator[list[str]]:
    """Name the runs of a store besides its first, so many at once."""
    first = int(time.time() * 1000)
    for begin in range(1, count, block):
        yield [names.run_id(first + number, number) for number in range(begin, min(begin + block, count))]


def store_more(store: Runs) -> str:
    """Store money and events of the one run of a store; return the run."""
    (line,) = store.list_runs()
    attempt = Attempt(id=names.attempt_id(line.run, 1), agent="claude", status="done", cost=Cost(0.1, "reported"))
    store.ledger.reserve(
        LedgerLine(
            attempt=attempt.id, run=line.run, node="main", agent="claude", repo="/repository", owner="", reserved=0.2,
            at=line.created,
        ),
        (),
    )  # fmt: skip
    store.ledger.settle(attempt, 0.1, line.created)
    for number in range(EVENTS):
        store.note(line.run, Said(f"{number}: {WORDS}"), at=line.created, node="main", attempt=attempt.id)
    store.flush()
    return line.run


def _rows(database: sqlite3.Connection, table: str) -> tuple[list[str], list[Sequence[object]]]:
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
    return columns, database.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()


def copies(rows: Sequence[Sequence[object]], run: str, others: Sequence[str]) -> Iterator[list[object]]:
    old = run.encode()
    for other in others:
        new = other.encode()
        for row in rows:
            yield [
                value.replace(run, other)
                if isinstance(value, str)
                else value.replace(old, new)
                if isinstance(value, bytes)
                else value
                for value in row
            ]
