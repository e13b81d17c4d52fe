"""Merges in the store, what runs have on forges, and comments of reviewers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from corral.model import ENCODER
from corral.model.forge import FollowRecord, IssueWork, PullRequest
from corral.model.merge import MergeRecord, QueueRecord
from corral.model.review import Comment
from corral.store.sql import Database

_MERGE = msgspec.json.Decoder(MergeRecord)
_PULL_REQUEST = msgspec.json.Decoder(PullRequest)
_FOLLOW = msgspec.json.Decoder(FollowRecord)
_ISSUE_WORK = msgspec.json.Decoder(IssueWork)


class _OlderQueue(msgspec.Struct, frozen=True):
    """What stores before 0.2 call differently."""

    landed: tuple[str, ...] = ()  #: `merged`


class _OlderWork(msgspec.Struct, frozen=True):
    """The same of an issue."""

    told: bool = False  #: `reported`


_OLDER_WORK = msgspec.json.Decoder(_OlderWork)
_QUEUE, _OLDER_QUEUE = msgspec.json.Decoder(QueueRecord), msgspec.json.Decoder(_OlderQueue)
_COMMENT = msgspec.json.Decoder(Comment)


class Merges:
    """The merges of all repositories, and queues of them."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, record: MergeRecord) -> MergeRecord:
        """Store a merge that is about to begin; return it with its number."""
        with self._store.transaction():
            rows = self._store.rows(
                "add_merge",
                run=record.run,
                git_dir=record.git_dir,
                state=record.state,
                at=record.at,
                after=record.after,
                record=ENCODER.encode(record),
            )
        return msgspec.structs.replace(record, id=cast("int", rows[0]["id"]))

    def save(self, *records: MergeRecord) -> None:
        with self._store.transaction():
            for record in records:
                self._store.do(
                    "save_merge", id=record.id, state=record.state, after=record.after, record=ENCODER.encode(record)
                )

    def drop(self, record: MergeRecord) -> None:
        """Forget a merge of which nothing came."""
        with self._store.transaction():
            self._store.do("drop_merge", id=record.id)

    def put_pull_request(self, run: str, record: PullRequest) -> None:
        with self._store.transaction():
            self._store.do("put_pull_request", run=run, record=ENCODER.encode(record))

    def pull_request(self, run: str) -> PullRequest | None:
        rows = self._store.rows("pull_request", run=run)
        return _PULL_REQUEST.decode(rows[0]["record"]) if rows else None

    def of_run(self, run: str) -> list[MergeRecord]:
        return self._read("merges_of_run", run=run)

    def of_repository(self, git_dir: str) -> list[MergeRecord]:
        return self._read("merges_of_repository", git_dir=git_dir)

    def everything(self) -> list[MergeRecord]:
        return self._read("all_merges")

    def list_unfinished(self, git_dir: str) -> list[MergeRecord]:
        """Return what was begun in a repository and not brought to its end."""
        return self._read("unfinished_merges", git_dir=git_dir)

    def list_conflicting(self, run: str | None = None) -> list[MergeRecord]:
        """Return what is stored as in conflict, of a run or of all."""
        return self._read("conflicting_merges", run=run)

    def list_effective(self, run: str, ref: str) -> list[MergeRecord]:
        """Return the merges of a run that moved a branch and were not taken back."""
        records = [record for record in self.of_run(run) if record.ref == ref and record.before != record.after]
        return [record for record in records if record.state in ("merged", "undoing")]

    def _read(self, query: str, **values: object) -> list[MergeRecord]:
        return [
            msgspec.structs.replace(_MERGE.decode(row["record"]), id=row["id"])
            for row in self._store.rows(query, **values)
        ]

    def add_queue(self, record: QueueRecord) -> QueueRecord:
        with self._store.transaction():
            rows = self._store.rows("add_queue", git_dir=record.git_dir, record=ENCODER.encode(record))
        return msgspec.structs.replace(record, id=cast("int", rows[0]["id"]))

    def save_queue(self, record: QueueRecord) -> None:
        with self._store.transaction():
            self._store.do("save_queue", id=record.id, over=int(record.over), record=ENCODER.encode(record))

    def open_queues(self, git_dir: str) -> list[QueueRecord]:
        return [_read_queue(row["id"], row["record"]) for row in self._store.rows("open_queues", git_dir=git_dir)]


class ForgeRecords:
    """What runs have on forges."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def put_follow(self, record: FollowRecord, next_at: float | None) -> None:
        with self._store.transaction():
            self._store.do("put_follow", run=record.run, record=ENCODER.encode(record), next_at=next_at)

    def follow(self, run: str) -> tuple[FollowRecord, float | None] | None:
        rows = self._store.rows("follow", run=run)
        return (_FOLLOW.decode(rows[0]["record"]), rows[0]["next_at"]) if rows else None

    def due_follows(self, now: float) -> list[str]:
        return [row["run"] for row in self._store.rows("due_follows", now=now)]

    def begin_follow(self, run: str, now: float, until: float) -> bool:
        """Take on a look that is due; nobody else does until then."""
        with self._store.transaction():
            return self._store.do("begin_follow", run=run, now=now, until=until) == 1

    def put_issue_work(self, work: IssueWork) -> None:
        with self._store.transaction():
            self._store.do(
                "put_issue_work",
                repository=work.repository,
                number=work.number,
                run=work.run,
                record=ENCODER.encode(work),
            )

    def issue_work(self, repository: str) -> list[IssueWork]:
        rows = self._store.rows("issue_work", repository=repository)
        return [_read_work(cast("bytes", row["record"])) for row in rows]


class Review:
    """The comments of all runs, by number."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, run: str, comments: Sequence[Comment]) -> list[Comment]:
        """Store new comments; return them with their ids."""
        with self._store.transaction():
            first = cast("int", self._store.rows("next_comment", run=run)[0]["number"])
            named = [msgspec.structs.replace(each, id=f"c{first + place}") for place, each in enumerate(comments)]
            self.save(run, named)
        return named

    def save(self, run: str, comments: Iterable[Comment]) -> None:
        with self._store.transaction():
            for each in comments:
                self._store.do("put_comment", run=run, number=int(each.id[1:]), record=ENCODER.encode(each))

    def of_run(self, run: str) -> list[Comment]:
        return [_COMMENT.decode(row["record"]) for row in self._store.rows("comments", run=run)]


def _read_queue(number: int, record: bytes) -> QueueRecord:
    found = _QUEUE.decode(record)
    return msgspec.structs.replace(found, id=number, merged=found.merged or _OLDER_QUEUE.decode(record).landed)


def _read_work(record: bytes) -> IssueWork:
    found = _ISSUE_WORK.decode(record)
    return msgspec.structs.replace(found, reported=found.reported or _OLDER_WORK.decode(record).told)
