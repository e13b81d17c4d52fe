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
ALL_RUNS = 1_000_000  #: that `--json` lists where nobody says how many
GRADED_MOST = 200  #: runs of a list that shows grades
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  #: of `--since`
FLAGS = ("--json", "--unmerged")
VALUES = ("-n", "--status", "--agent", "--since", "--label", "--repo")
ORPHANED = "its process is gone; corral resume continues it"  #: why a run is not over, if nothing else says so
QUEUED = "waits in the queue to be taken up"
AT_WORK = ("queued", "running")  #: a process should work on these
MOST_LEASE = 75.0  #: seconds that a lease may have left; one that ends later is not true
RUNS = """SELECT r.id, r.status, r.created, r.owner, r.lease_until, r.name, r.task,
    (SELECT sum(a.usd) FROM attempts a WHERE a.run = r.id), r.labels, r.reason, r.strategy, r.repo, r.ended, r.seconds
    FROM runs r WHERE (:status IS NULL OR r.status = :status)
    AND (:agent IS NULL OR EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.agent = :agent))
    AND (:since IS NULL OR r.created >= :since) AND (:label IS NULL OR r.labels LIKE :label ESCAPE '!')
    AND (:repo IS NULL OR substr(:repo || '/', 1, length(r.repo) + 1) = r.repo || '/')
    AND (:unmerged IS NULL OR (
      EXISTS (SELECT 1 FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run = r.id AND a.changes = 1)
      AND NOT EXISTS (SELECT 1 FROM merges m WHERE m.run = r.id AND m.state IN ('merged', 'undoing'))))
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
#: Owner, name, task, labels, reason, strategy, repository, when it ended, seconds.
Details = tuple[str | None, str | None, str, str, str | None, str, str, float | None, float | None]


def plain_options(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the options of `corral ls`, by name; None where they are not plain: each once, with a plain value."""
    found: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        value = "" if word in FLAGS else next(words, None) if word in VALUES else None
        if value is None or word in found:
            return None
        found[word] = value
    number, status, repo = found.get("-n", "1"), found.get("--status", ENDED[0]), found.get("--repo", "/")
    age, label = found.get("--since", "1d"), found.get("--label", "a")
    is_plain = (
        (_is_number(number) and int(number) > 0 and status in ENDED)
        and (_is_number(age[:-1]) and age[-1] in UNITS)
        and (label.replace("=", "", 1).replace("-", "a").isalnum() and label.isascii() and label[0] != "=")
        and (repo != "" and repo[0] != "~")
    )
    return found if is_plain else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS


def newest(options: dict[str, str], usual: int) -> list[PlainRow] | None:
    """Return the newest runs; None where it takes more than a look: another store, an older one, an open question."""
    found = _ask(options, usual)
    return None if found is None else [row for row, _ in found]


def documents(options: dict[str, str]) -> list[dict[str, object]] | None:
    """Return the newest runs as `ls --json` prints them; None as above."""
    found = _ask(options, ALL_RUNS)
    return None if found is None else [_document(row, details) for row, details in found]


def _document(row: PlainRow, details: Details) -> dict[str, object]:
    from datetime import UTC, datetime  # noqa: PLC0415 -- a table needs none
    from json import loads  # noqa: PLC0415

    run, status, created, usd, agents, _, grade, merge, orphaned = row
    owner, name, task, labels, reason, strategy, repo, ended, seconds = details
    if orphaned:
        reason = ORPHANED
    elif status == "queued" and owner is None:
        reason = QUEUED
    if ended is not None and seconds is None:  # an older store has only the times of its wall clock
        seconds = round(max(0.0, ended - created), 3)
    return {
        "run": run,
        "name": name,
        "labels": loads(labels),
        "status": status,
        "reason": reason,
        "strategy": strategy,
        "task": task[:MOST_TASK],
        "repo": repo,
        "agents": list(agents),
        "started": datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds"),
        "seconds": seconds,
        "cost": {"usd": usd},
        "orphaned": orphaned,
        "answered": False,
        "grade": grade,
        "merge": merge,
    }


def _ask(options: dict[str, str], usual: int) -> list[tuple[PlainRow, Details]] | None:
    if os.environ.get("CORRAL_STORE") or _names_a_store():
        return None
    try:
        database = sqlite3.connect(f"file:{_quote(places.home())}/corral.db?mode=ro", uri=True)
    except sqlite3.Error:
        return None
    try:
        return _read(database, _values(options, usual))
    except (sqlite3.Error, OSError, ValueError):  # the usual way says what is wrong
        return None
    finally:
        database.close()


def _values(options: dict[str, str], usual: int) -> dict[str, int | float | str | None]:
    """Return what the query asks for by its names."""
    age, label, repo = options.get("--since"), options.get("--label"), options.get("--repo")
    key, _, value = (label or "").partition("=")
    return {
        "most": int(options.get("-n", usual)),
        "status": options.get("--status"),
        "agent": options.get("--agent"),
        "since": time.time() - int(age[:-1]) * UNITS[age[-1]] if age else None,
        "label": f'%"{key}":"{value}"%' if value else f'%"{key}":%' if key else None,
        "repo": os.path.realpath(repo) if repo else None,
        "unmerged": 1 if "--unmerged" in options else None,
    }


def _read(
    database: sqlite3.Connection, wanted: dict[str, int | float | str | None]
) -> list[tuple[PlainRow, Details]] | None:
    steps = {int(name[:-4]) for name in os.listdir(MIGRATIONS) if name.endswith(".sql")}  # noqa: PTH208
    newest = database.execute("PRAGMA user_version").fetchone()[0]
    if newest > max(steps) or {row[0] for row in database.execute("SELECT number FROM migrations")} != steps:
        return None
    database.execute("PRAGMA case_sensitive_like = ON")  # as in every other look at a store
    runs = database.execute(RUNS, wanted).fetchall()
    done, at_work = ([row[0] for row in runs if row[1] == status] for status in ("done", "running"))
    if any(row[1] == "waiting" for row in runs) or _pairs(database, ASKED, at_work):
        return None  # what it waits for may be answered by now
    agents: dict[str, list[str]] = {}
    for run, agent in _pairs(database, AGENTS, [row[0] for row in runs]):
        agents.setdefault(run, []).append(agent)
    done = done if len(runs) <= GRADED_MOST else []
    grades: dict[str, str] = {}
    for run, grade in _pairs(database, PROVEN, done):
        if grade in GRADES and GRADES.index(grade) >= GRADES.index(grades.get(run, grade)):
            grades[run] = grade
    merges = dict(_pairs(database, READY, done)) | dict(_pairs(database, MERGES, done))
    return [
        (
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
            ),
            (owner, name, task, *details),
        )
        for run, status, created, owner, lease_until, name, task, usd, *details in runs
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
