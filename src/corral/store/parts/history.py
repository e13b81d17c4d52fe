"""How attempts and programs went before: of each agent, of checks, in conversations; and the limits of accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from corral.model import ENCODER, CheckObservation, TrackRecord
from corral.model.chat import ChatRecord
from corral.model.flow import TaskType
from corral.model.money import Quota, QuotaWindow
from corral.model.program import ProgramRecord, ToolUses
from corral.store.sql import Database

MINUTE = 60.0
#: events of what an agent said and did in detail; what the engine decided is none of them
DETAILS = frozenset(
    ("said", "called_tool", "tool_returned", "changed", "spent", "context_used", "filled", "unparsed", "reached"),
)
MOST_PROGRAMS = 500  #: kept of one repository
EMPTY_CHAT_SECONDS = 7 * 86_400.0  #: how long a conversation without a prompt is kept


class Accounts:
    """What is known of the limits of each account."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def see(self, windows: Iterable[QuotaWindow]) -> None:
        """Remember the state of the windows of an account now."""
        with self._store.transaction():
            for each in windows:
                self._store.do(
                    "see_window", agent=each.agent, name=each.name, used=each.used, resets=each.resets, at=each.at
                )

    def windows(self) -> list[QuotaWindow]:
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


class _Typed(msgspec.Struct):
    type: str


_DECODE_TYPE = msgspec.json.Decoder(_Typed)


def _is_detail(body: bytes) -> bool:
    return _DECODE_TYPE.decode(body).type in DETAILS


class History:
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
            dropped, after = 0, 0
            while page := self._store.events(run, after):
                after = page[-1].seq
                dropped += sum(self._store.do("drop_event", seq=each.seq) for each in page if _is_detail(each.body))
            return dropped

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


class Chats:
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


class Programs:
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
