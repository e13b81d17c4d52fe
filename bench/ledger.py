"""The ledger: a reservation and its settlement against a bare transaction; and nothing is lost among many processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.model import Attempt, Cost
from corral.model.events import Noted
from corral.model.money import Bound, LedgerLine, Limit
from corral.store.parts.ledger import Ledger
from corral.store.sqlite.store import Store
from corral.world import process_identity

PROCESSES, OPERATIONS = 16, 10_000
ME = process_identity.own_name()
BOUNDS = [Bound(limit=Limit(window=window, usd=1e9), run="run", node="main") for window in ("ceiling", "day", "run")]


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        bare, end, both = _compare(Path(name))
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        lost = _race(Path(name))
    ratio = (both - end) / bare
    note = "it is settled in the transaction that ends the attempt"
    return [
        Promise("a reservation and its settlement", "a bare SQLite transaction, as durable", ratio, 2.0, note),
        Promise(f"lost among {OPERATIONS:,} steps of {PROCESSES} processes", "none", float(lost), 0.0, "a count"),
    ]


def _compare(folder: Path) -> list[float]:
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("PRAGMA synchronous = FULL")
    bare.execute("CREATE TABLE lines (id INTEGER PRIMARY KEY, usd REAL NOT NULL) STRICT")
    store = Store(folder)
    kept, numbers = Ledger(store, process_identity.is_alive), count()

    def transact() -> None:
        for _ in range(50):
            bare.execute("BEGIN IMMEDIATE")
            bare.execute("INSERT INTO lines (usd) VALUES (1.0)")
            bare.execute("COMMIT")

    def end() -> None:
        for _ in range(50):
            with store.transaction():
                store.note("run", Noted("over"), at=1.0)

    def reserve_and_end() -> None:
        for _ in range(50):
            name = f"a{next(numbers)}"
            kept.reserve(_line(name), BOUNDS)
            with store.transaction():
                store.note("run", Noted("over"), at=1.0)
                kept.settle(_ended(name), 0.5, 2.0)

    medians = interleaved(9, transact, end, reserve_and_end)
    bare.close()
    store.close()
    return medians


def _line(name: str) -> LedgerLine:
    return LedgerLine(attempt=name, run="run", node="main", agent="a", repo="/r", owner=ME, reserved=1.0, at=1.0)


def _ended(name: str) -> Attempt:
    return Attempt(id=name, agent="a", status="done", cost=Cost(0.5, "reported"))


def _spend_many(folder: Path, number: str, steps: int) -> None:
    """Reserve and settle, so many steps; what each of the racing processes does."""
    store = Store(folder)
    kept = Ledger(store, process_identity.is_alive)
    for step in range(steps // 2):
        name = f"{number}-{step}"
        if kept.reserve(_line(name), BOUNDS) is None:
            kept.settle(_ended(name), 0.5, 2.0)
    store.close()


def _race(folder: Path) -> int:
    Store(folder).close()
    each = OPERATIONS // PROCESSES
    racing = [
        subprocess.Popen([sys.executable, "-m", "bench.ledger", str(folder), str(number), str(each)])
        for number in range(PROCESSES)
    ]
    for process in racing:
        process.wait()
    store = Store(folder)
    lines = Ledger(store, process_identity.is_alive).history()
    store.close()
    settled = [line for line in lines if line.settled is not None and line.spent == 0.5]
    return PROCESSES * (each // 2) - len(settled)


if __name__ == "__main__":
    _spend_many(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
