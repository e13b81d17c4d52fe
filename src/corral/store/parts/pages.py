"""Pages of runs and of the one event log, for those who look from far away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from corral.model import GRADES, Grade, Status
from corral.model.events import StoredEvent
from corral.model.money import dollars
from corral.model.server import ListedMerge, LoggedEvent, RunFilter
from corral.store.records import RunLine, run_seconds
from corral.store.sql import Database, Row

MOST_ITEMS = 500  #: in a query that asks for a list
MOST_NODES = 50  #: of a run whose grade a listing shows


class Pages:
    """Listings of runs, and pages of their events."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def runs(self, wanted: RunFilter) -> list[RunLine]:
        """Return a page of runs, newest first."""
        rows = self._store.rows(
            "page_of_runs",
            before=wanted.before,
            statuses=f",{','.join(wanted.statuses)}," if wanted.statuses else None,
            repo=wanted.repo,
            git_dir=wanted.git_dir,
            top_level=int(wanted.top_level),
            words=_containing(_lower(wanted.words)) if wanted.words is not None else None,
            agent=wanted.agent,
            since=wanted.since,
            labels=_label_pattern(wanted.labels) if wanted.labels else None,
            unmerged=int(wanted.unmerged),
            most=wanted.most,
        )
        agents: dict[str, list[str]] = {}
        for part in _slices([row["id"] for row in rows]):
            for row in self._store.rows_of("agents_of_runs", part):
                agents.setdefault(row["run"], []).append(row["agent"])
        return [
            _run_line(row, agents.get(row["id"], ()), self._store.to_local_time(row["lease_until"])) for row in rows
        ]

    def grades(self, names: Sequence[str]) -> dict[str, Grade]:
        """Return how well runs are proven: the grade of the weakest winner of each; a large flow is left out."""
        found: dict[str, Grade] = {}
        rows = [row for part in _slices(names) for row in self._store.rows_of("grades_of_runs", part, nodes=MOST_NODES)]
        for row in rows:
            grade, before = row["grade"], found.get(row["run"])
            if grade in GRADES and (before is None or GRADES.index(grade) > GRADES.index(before)):
                found[row["run"]] = grade
        return found

    def merge_states(self, names: Sequence[str]) -> dict[str, ListedMerge]:
        """Return what became of the work of runs: merged, in conflict, undone or ready; only of those with work."""
        found: dict[str, ListedMerge] = {}
        for part in _slices(names):
            found |= {row["run"]: "ready" for row in self._store.rows_of("runs_with_work", part)}
            states = [(row["run"], row["state"]) for row in self._store.rows_of("merges_of_runs", part)]
            found |= {run: "undone" for run, state in states if state == "undone"}
            found |= {run: "conflict" for run, state in states if state == "conflict"}
            found |= {run: "merged" for run, state in states if state in ("merged", "undoing")}
        return found

    def events(self, run: str | None, after: int, most: int, node: str | None = None) -> list[LoggedEvent]:
        """Return events of all runs, of one, or of one node of it, oldest first."""
        if run is None:
            return _logged_events(self._store.rows("events_of_all", after=after, most=most))
        if node is not None:
            return _logged_events(self._store.rows("events_of_node", run=run, node=node, after=after, most=most))
        return [LoggedEvent(run, stored) for stored in self._store.events(run, after, most)]

    def last_events(self, run: str, before: int, most: int) -> list[LoggedEvent]:
        """Return the events just before a sequence number, oldest first: how a long log is read from its end."""
        return _logged_events(self._store.rows("events_before", run=run, before=before, most=most))[::-1]

    def last_sequence(self) -> int:
        return self._store.rows("last_event")[0]["seq"]

    def counts(self) -> dict[str, int]:
        """Return how many runs have each status."""
        return {row["status"]: row["count"] for row in self._store.rows("count_runs")}

    def attempt_counts(self) -> list[tuple[str, str, int, float]]:
        """Return agent, status, how many attempts, and what is known of their cost."""
        return [
            (row["agent"], row["status"], row["count"], dollars(row["usd"] or 0.0))
            for row in self._store.rows("count_attempts")
        ]

    def owned_runs(self) -> list[tuple[str, Status, str | None]]:
        """Return run, status and owner of all that is not over."""
        return [(row["id"], row["status"], row["owner"]) for row in self._store.rows("owned_runs")]

    def runs_with_work(self, git_dir: str) -> list[str]:
        """Return the runs of a repository that are not over, or may have work that is not merged, oldest first."""
        return [row["id"] for row in self._store.rows("runs_with_work_of", git_dir=git_dir)]

    def limited_runs(self) -> list[tuple[str, float | None]]:
        """Return the runs that are parked on a quota, and until when."""
        return [(row["id"], row["until"]) for row in self._store.rows("limited_runs")]


def _logged_events(rows: Iterable[Row]) -> list[LoggedEvent]:
    return [
        LoggedEvent(row["run"], StoredEvent(row["seq"], row["at"], row["node"], row["attempt"], row["body"]))
        for row in rows
    ]


def _run_line(row: Row, agents: Sequence[str], lease_until: float) -> RunLine:
    return RunLine(
        run=row["id"],
        name=row["name"],
        labels=msgspec.json.decode(row["labels"], type=dict[str, str]),
        status=row["status"],
        reason=row["reason"],
        created=row["created"],
        ended=row["ended"],
        seconds=run_seconds(row["created"], row["ended"], row["seconds"]),
        repo=row["repo"],
        strategy=row["strategy"],
        task=row["task"],
        agents=tuple(agents),
        usd=None if row["usd"] is None else dollars(row["usd"]),
        owner=row["owner"],
        lease_until=lease_until,
    )


def _slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + MOST_ITEMS] for start in range(0, len(names), MOST_ITEMS))


def _lower(text: str) -> str:
    """Return a text in small letters as databases write them: ASCII alone."""
    return text.encode().lower().decode()


def _containing(text: str) -> str:
    return f"%{_escape(text)}%"


def _escape(text: str) -> str:
    """Return a text that stands for itself in a pattern of LIKE."""
    return re.sub("[!%_]", r"!\g<0>", text)


def _label_pattern(labels: Mapping[str, str]) -> str:
    """Return what the labels of a run must look like, sorted as they are stored; an empty value fits any."""
    fields = (f"{_json(name)}:{_json(value) if value else ''}" for name, value in sorted(labels.items()))
    return f"%{'%'.join(_escape(each) for each in fields)}%"


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
