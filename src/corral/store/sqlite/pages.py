"""Pages of runs and of the one event log, for those who look from far away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from corral.model import ENCODER, GRADES, Grade, Status
from corral.model.events import Stored
from corral.model.money import dollars
from corral.model.server import Logged, RunFilter
from corral.store.sqlite.store import RunLine, Store, run_line

MOST_NODES = 50  #: of a run whose grade a listing shows


def runs(store: Store, wanted: RunFilter) -> list[RunLine]:
    """Return a page of runs, newest first."""
    rows = store.rows(
        "page_of_runs",
        before=wanted.before,
        statuses=f",{','.join(wanted.statuses)}," if wanted.statuses else None,
        repo=wanted.repo,
        words=wanted.words,
        agent=wanted.agent,
        since=wanted.since,
        most=wanted.most,
    )
    return [run_line(row) for row in rows]


def grades(store: Store, names: Sequence[str]) -> dict[str, Grade]:
    """Return how well runs are proven: the grade of the weakest winner of each; a large flow is left out."""
    found: dict[str, Grade] = {}
    for row in store.rows("grades_of_runs", runs=ENCODER.encode(names), nodes=MOST_NODES):
        grade, before = row["grade"], found.get(row["run"])
        if grade in GRADES and (before is None or GRADES.index(grade) > GRADES.index(before)):
            found[row["run"]] = grade
    return found


def events(store: Store, run: str | None, after: int, most: int, node: str | None = None) -> list[Logged]:
    """Return events of all runs, of one, or of one node of it, oldest first."""
    if run is None:
        return _logged(store.rows("events_of_all", after=after, most=most))
    if node is not None:
        return _logged(store.rows("events_of_node", run=run, node=node, after=after, most=most))
    return [Logged(run, stored) for stored in store.events(run, after, most)]


def last_events(store: Store, run: str, before: int, most: int) -> list[Logged]:
    """Return the events just before a sequence number, oldest first: how a long log is read from its end."""
    return _logged(store.rows("events_before", run=run, before=before, most=most))[::-1]


def last_sequence(store: Store) -> int:
    return store.rows("last_event")[0]["seq"]


def counts(store: Store) -> dict[str, int]:
    """Return how many runs have each status."""
    return {row["status"]: row["count"] for row in store.rows("count_runs")}


def attempt_counts(store: Store) -> list[tuple[str, str, int, float]]:
    """Return agent, status, how many attempts, and what is known of their cost."""
    return [
        (row["agent"], row["status"], row["count"], dollars(row["usd"] or 0.0)) for row in store.rows("count_attempts")
    ]


def owned(store: Store) -> list[tuple[str, Status, str | None]]:
    """Return run, status and owner of all that is not over."""
    return [(row["id"], row["status"], row["owner"]) for row in store.rows("owned_runs")]


def _logged(rows: Iterable[sqlite3.Row]) -> list[Logged]:
    return [Logged(row["run"], Stored(row["seq"], row["at"], row["node"], row["attempt"], row["body"])) for row in rows]


def limited(store: Store) -> list[tuple[str, float | None]]:
    """Return the runs that are parked on a quota, and until when."""
    return [(row["id"], row["until"]) for row in store.rows("limited_runs")]
