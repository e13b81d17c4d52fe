"""Earlier runs, attempts and programs: pages of runs and events, results by agent and check, limits of accounts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from corral.model import ENCODER, GRADES, CheckObservation, Grade, Status, TrackRecord
from corral.model.chat import ChatRecord
from corral.model.events import StoredEvent
from corral.model.flow import TaskType
from corral.model.money import Quota, QuotaWindow, dollars
from corral.model.program import ProgramRecord, ToolUses
from corral.model.server import LoggedEvent, RunFilter
from corral.store.records import RunLine
from corral.store.sqlite.database import Database

MINUTE = 60.0
MOST_PROGRAMS = 500  #: kept of one repository
EMPTY_CHAT_SECONDS = 7 * 86_400.0  #: how long a conversation without a prompt is kept
MOST_NODES = 50  #: of a run whose grade a listing shows


class SqliteAccounts:
    """What is known of the limits of each account."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def see(self, windows: Iterable[QuotaWindow]) -> None:
        """Remember how the windows of an account stand now."""
        with self._store.transaction():
            for each in windows:
                self._store.do(
                    "see_window", agent=each.agent, name=each.name, used=each.used, resets=each.resets, at=each.at
                )

    def seen(self) -> list[QuotaWindow]:
        return [QuotaWindow(**{name: row[name] for name in row.keys()}) for row in self._store.rows("quota_windows")]  # noqa: SIM118

    def ask(self, agent: str, most: int, now: float) -> float:
        """Count one more request of an account if the last minute has room for it; return how long to wait, or 0."""
        with self._store.transaction():
            self._store.do("forget_requests", before=now - MINUTE, now=now + MINUTE)
            row = self._store.rows("requests_since", agent=agent, since=now - MINUTE)[0]
            if cast("int", row["count"]) >= most:
                return max(0.01, cast("float", row["first"]) + MINUTE - now)
            self._store.do("add_request", agent=agent, at=now)
        return 0.0

    def learn_quota(self, agent: str, model: str | None, until: float | None, message: str, at: float) -> None:
        """Remember that an agent ran into a limit."""
        with self._store.transaction():
            self._store.do("add_quota", agent=agent, model=model, at=at, until=until, message=message)

    def quotas(self, now: float) -> list[Quota]:
        """Return the newest limit that each account of each agent ran into."""
        return [
            Quota(
                agent=cast("str", row["agent"]).partition("@")[0],
                account=cast("str", row["agent"]).partition("@")[2] or None,
                model=row["model"],
                at=row["at"],
                until=row["until"],
                message=row["message"],
                cooling_until=row["cooling"],
                times=row["times"],
            )
            for row in self._store.rows("newest_quotas", now=now)
        ]


KEPT_SECONDS = 86_400.0  #: programs on the machine change, and no hash tells of that


_DECODER = msgspec.json.Decoder(tuple[CheckObservation, ...])


class SqliteHistory:
    """How attempts went before, and results of checks that need not be run again."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def track_records(self, kind: TaskType | None) -> list[TrackRecord]:
        """Return for each agent how many tasks of a type it tried and did, and what they cost; None: of any type."""
        return [
            TrackRecord(agent=row["agent"], count=row["count"], done=row["done"], usd=row["usd"])
            for row in self._store.rows("track_records", type=kind)
        ]

    def forget_words(self, run: str) -> int:
        """Drop what agents said in a run; how it went stays. Return how many events that were."""
        with self._store.transaction():
            return self._store.do("forget_words", run=run)

    def flow_records(self) -> dict[str, tuple[int, int]]:
        """Return for each flow, by its name, how many runs of it ended and how many of them well."""
        return {row["flow"]: (row["count"], row["done"]) for row in self._store.rows("flow_records")}

    def check_results(self, key: str, now: float) -> tuple[CheckObservation, ...] | None:
        """Return what was found out before, if that is not too long ago."""
        rows = self._store.rows("suite", key=key, since=now - KEPT_SECONDS)
        return _DECODER.decode(rows[0]["results"]) if rows else None

    def keep_check_results(self, key: str, results: Sequence[CheckObservation], now: float) -> None:
        with self._store.transaction():
            self._store.do("forget_suites", before=now - KEPT_SECONDS)
            self._store.do("keep_suite", key=key, at=now, results=ENCODER.encode(results))


class SqliteChats:
    """Conversations in editors."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def put(self, record: ChatRecord) -> None:
        with self._store.transaction():
            self._store.do("drop_empty_chats", before=record.updated - EMPTY_CHAT_SECONDS)
            self._store.do(
                "put_chat",
                id=record.id,
                folder=record.folder,
                updated=record.updated,
                empty=int(not record.runs),
                record=ENCODER.encode(record),
            )

    def find(self, name: str) -> ChatRecord | None:
        rows = self._store.rows("chat", id=name)
        return msgspec.json.decode(rows[0]["record"], type=ChatRecord) if rows else None

    def page(self, folder: str | None, before: tuple[float, str], most: int) -> list[ChatRecord]:
        """Return conversations of a folder, or of all, that have a prompt, newest first."""
        rows = self._store.rows("chats", folder=folder or "", before=before[0], before_id=before[1], most=most)
        return [msgspec.json.decode(row["record"], type=ChatRecord) for row in rows]

    def drop(self, name: str) -> bool:
        with self._store.transaction():
            return self._store.do("drop_chat", id=name) == 1


class SqlitePrograms:
    """The programs of each repository."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, record: ProgramRecord) -> None:
        """Keep what a program did; the oldest of its repository are forgotten."""
        with self._store.transaction():
            self._store.do(
                "add_program_run",
                id=record.id,
                created=record.created,
                repo=record.repo,
                run=record.run,
                tool=record.tool,
                hash=record.hash,
                status=record.result.status,
                record=ENCODER.encode(record).decode(),
            )
            self._store.do("forget_program_runs", repo=record.repo, most=MOST_PROGRAMS)

    def get(self, name: str) -> ProgramRecord | None:
        rows = self._store.rows("program_run", id=name)
        return msgspec.json.decode(rows[0]["record"], type=ProgramRecord) if rows else None

    def use(self, place: str, name: str, digest: str, at: float, *, succeeded: bool) -> None:
        """Count a use of a stored tool."""
        with self._store.transaction():
            self._store.do("use_tool", place=place, name=name, hash=digest, succeeded=int(succeeded), at=at)

    def uses(self, place: str, name: str) -> ToolUses:
        row = self._store.rows("tool_uses", place=place, name=name)[0]
        return ToolUses(row["uses"] or 0, row["succeeded"] or 0, row["last_used"])

    def forget(self, place: str, name: str) -> None:
        with self._store.transaction():
            self._store.do("forget_tool", place=place, name=name)


class SqlitePages:
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
            top_level=wanted.top_level,
            words=wanted.words,
            agent=wanted.agent,
            since=wanted.since,
            labels=ENCODER.encode(wanted.labels).decode() if wanted.labels else None,
            unmerged=wanted.unmerged,
            most=wanted.most,
        )
        return [_run_line(row) for row in rows]

    def grades(self, names: Sequence[str]) -> dict[str, Grade]:
        """Return how well runs are proven: the grade of the weakest winner of each; a large flow is left out."""
        found: dict[str, Grade] = {}
        for row in self._store.rows("grades_of_runs", runs=ENCODER.encode(names), nodes=MOST_NODES):
            grade, before = row["grade"], found.get(row["run"])
            if grade in GRADES and (before is None or GRADES.index(grade) > GRADES.index(before)):
                found[row["run"]] = grade
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

    def owned(self) -> list[tuple[str, Status, str | None]]:
        """Return run, status and owner of all that is not over."""
        return [(row["id"], row["status"], row["owner"]) for row in self._store.rows("owned_runs")]

    def limited(self) -> list[tuple[str, float | None]]:
        """Return the runs that are parked on a quota, and until when."""
        return [(row["id"], row["until"]) for row in self._store.rows("limited_runs")]


def _logged_events(rows: Iterable[sqlite3.Row]) -> list[LoggedEvent]:
    return [
        LoggedEvent(row["run"], StoredEvent(row["seq"], row["at"], row["node"], row["attempt"], row["body"]))
        for row in rows
    ]


def _run_line(row: sqlite3.Row) -> RunLine:
    return RunLine(
        run=row["id"],
        name=row["name"],
        labels=msgspec.json.decode(row["labels"], type=dict[str, str]) if row["labels"] else {},
        status=row["status"],
        reason=row["reason"],
        created=row["created"],
        ended=row["ended"],
        seconds=run_seconds(row),
        repo=row["repo"],
        strategy=row["strategy"],
        task=row["task"],
        agents=tuple((row["agents"] or "").split(",")) if row["agents"] else (),
        usd=None if row["usd"] is None else dollars(row["usd"]),
        owner=row["owner"],
    )


def run_seconds(row: sqlite3.Row) -> float | None:
    """Return how long a run took; an older store has only the times of its wall clock."""
    if row["ended"] is None or row["seconds"] is not None:
        return cast("float | None", row["seconds"])
    return round(max(0.0, row["ended"] - row["created"]), 3)
