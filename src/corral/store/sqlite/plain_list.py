"""The newest runs for `corral ls` with plain options, read without loading what every other command needs."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence

from corral.config import places
from corral.world import process_names

MIGRATIONS = f"{os.path.dirname(__file__)}/../migrations"  # noqa: PTH120 -- asked very often
MOST_TASK = 2000  #: characters of a task
DECIMALS = 6  #: of dollars
GRADES = ("held-out", "proven", "unharmed", "unchecked", "doubtful")  #: the best first
ENDED = ("done", "failed", "stopped")  #: statuses that are shown as they are stored
MOST_DIGITS = 5  #: of how many runs are asked for
AT_WORK = ("queued", "running")  #: a process should work on these
MOST_LEASE = 75.0  #: seconds that a lease may have left; one that ends later is not true
RUNS = """SELECT r.id, r.status, r.created, r.owner, r.lease_until, r.name, r.task,
    (SELECT sum(a.usd) FROM attempts a WHERE a.run = r.id) FROM runs r WHERE (:status IS NULL OR r.status = :status)
    AND (:agent IS NULL OR EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.agent = :agent))
    ORDER BY r.id DESC LIMIT :most"""
AGENTS = "SELECT run, agent FROM attempts WHERE run IN ({}) GROUP BY run, agent ORDER BY run, min(place)"
PROVEN = """SELECT n.run, a.grade FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run IN ({})
    AND (SELECT count(*) FROM nodes m WHERE m.run = n.run) <= 50"""  # the grade of a large flow is left out
READY = "SELECT n.run, 'ready' FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run IN ({}) AND a.changes = 1"
MERGES = """SELECT run, CASE state WHEN 'undoing' THEN 'merged' ELSE state END FROM merges
    WHERE run IN ({}) AND state IN ('merged', 'undoing', 'conflict', 'undone')
    ORDER BY CASE state WHEN 'undone' THEN 0 WHEN 'conflict' THEN 1 ELSE 2 END"""
ASKED = "SELECT run, id FROM inbox WHERE run IN ({}) AND answered_at IS NULL LIMIT 1"

#: Run, status, when it was asked for, dollars, agents, title, grade, merge, whether it is orphaned.
PlainRow = tuple[str, str, float, float | None, Sequence[str], str, str | None, str | None, bool]


def plain_options(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the options of `corral ls`, by name; None where they are not plain: each once, with a plain value."""
    found = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(found) * 2 != len(arguments) or not found.keys() <= {"-n", "--status", "--agent"}:
        return None
    number, status = found.get("-n", "1"), found.get("--status", ENDED[0])
    is_plain = number.isascii() and number.isdecimal() and 0 < len(number) < MOST_DIGITS and int(number) > 0
    return found if is_plain and status in ENDED else None


def newest(most: int, status: str | None = None, agent: str | None = None) -> list[PlainRow] | None:
    """Return the newest runs; None where it takes more than a look: another store, an older one, an open question."""
    if os.environ.get("CORRAL_STORE") or _names_a_store():
        return None
    try:
        database = sqlite3.connect(f"file:{_quote(places.home())}/corral.db?mode=ro", uri=True)
    except sqlite3.Error:
        return None
    try:
        return _read(database, {"most": most, "status": status, "agent": agent})
    except (sqlite3.Error, OSError, ValueError):  # the usual way says what is wrong
        return None
    finally:
        database.close()


def _read(database: sqlite3.Connection, wanted: dict[str, int | str | None]) -> list[PlainRow] | None:
    steps = {int(name[:-4]) for name in os.listdir(MIGRATIONS) if name.endswith(".sql")}  # noqa: PTH208
    newest = database.execute("PRAGMA user_version").fetchone()[0]
    if newest > max(steps) or {row[0] for row in database.execute("SELECT number FROM migrations")} != steps:
        return None
    runs = database.execute(RUNS, wanted).fetchall()
    done, at_work = ([row[0] for row in runs if row[1] == status] for status in ("done", "running"))
    if any(row[1] == "waiting" for row in runs) or _pairs(database, ASKED, at_work):
        return None  # what it waits for may be answered by now
    agents: dict[str, list[str]] = {}
    for run, agent in _pairs(database, AGENTS, [row[0] for row in runs]):
        agents.setdefault(run, []).append(agent)
    grades: dict[str, str] = {}
    for run, grade in _pairs(database, PROVEN, done):
        if grade in GRADES and GRADES.index(grade) >= GRADES.index(grades.get(run, grade)):
            grades[run] = grade
    merges = dict(_pairs(database, READY, done)) | dict(_pairs(database, MERGES, done))
    return [
        (
            run,
            status,
            created,
            None if usd is None else round(usd, DECIMALS),
            agents.get(run, ()),
            name or task[:MOST_TASK],
            grades.get(run),
            merges.get(run),
            _is_orphaned(status, owner, lease_until),
        )
        for run, status, created, owner, lease_until, name, task, usd in runs
    ]


def _pairs(database: sqlite3.Connection, query: str, runs: Sequence[str]) -> list[tuple[str, str]]:
    """Return what a query says of some runs, in two columns."""
    return database.execute(query.format(",".join("?" * len(runs))), runs).fetchall() if runs else []


def _is_orphaned(status: str, owner: str | None, lease_until: float) -> bool:
    if status not in AT_WORK or (status, owner) == ("queued", None):
        return False
    alive = process_names.is_alive(owner) if owner is not None else False
    return alive is False or (alive is None and not 0 < lease_until - time.time() <= MOST_LEASE)


def _names_a_store() -> bool:
    try:
        with open(places.user_file(), encoding="utf-8") as file:  # noqa: PTH123
            return "store" in file.read()
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True


def _quote(path: str) -> str:
    """Return a path as SQLite reads it in an address."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
