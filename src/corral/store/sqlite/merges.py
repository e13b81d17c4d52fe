"""Merges in the store: what was moved from where to where, so that it can be finished, shown and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from corral.model import ENCODER
from corral.model.merge import MergeRecord, QueueRecord
from corral.store.sqlite.store import Store

_MERGE = msgspec.json.Decoder(MergeRecord)
_QUEUE = msgspec.json.Decoder(QueueRecord)


def add(store: Store, record: MergeRecord) -> MergeRecord:
    """Store a merge that is about to begin; return it with its number."""
    with store.transaction():
        rows = store.rows(
            "add_merge",
            run=record.run,
            git_dir=record.git_dir,
            state=record.state,
            at=record.at,
            record=ENCODER.encode(record),
        )
    return msgspec.structs.replace(record, id=cast("int", rows[0]["id"]))


def save(store: Store, *records: MergeRecord) -> None:
    with store.transaction():
        for record in records:
            store.do("save_merge", id=record.id, state=record.state, record=ENCODER.encode(record))


def drop(store: Store, record: MergeRecord) -> None:
    """Forget a merge of which nothing came."""
    with store.transaction():
        store.do("drop_merge", id=record.id)


def of_run(store: Store, run: str) -> list[MergeRecord]:
    return _read(store, "merges_of_run", run=run)


def of_repository(store: Store, git_dir: str) -> list[MergeRecord]:
    return _read(store, "merges_of_repository", git_dir=git_dir)


def everything(store: Store) -> list[MergeRecord]:
    return _read(store, "all_merges")


def unfinished(store: Store, git_dir: str) -> list[MergeRecord]:
    """Return what was begun in a repository and not brought to its end."""
    return _read(store, "unfinished_merges", git_dir=git_dir)


def conflicting(store: Store, run: str | None = None) -> list[MergeRecord]:
    """Return what is stored as in conflict, of a run or of all."""
    return _read(store, "conflicting_merges", run=run)


def latest(records: Sequence[MergeRecord]) -> MergeRecord | None:
    """Return the one that tells how things stand."""
    told = [record for record in records if record.state != "begun"]
    moved = [record for record in told if record.before != record.after]
    return (moved or told)[-1] if told else None


def in_conflict(records: Sequence[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that wait for a person: where the last into a branch is in conflict."""
    by_branch: dict[str, list[MergeRecord]] = {}
    for record in records:
        by_branch.setdefault(record.ref, []).append(record)
    last = [latest(of_branch) for of_branch in by_branch.values()]
    return sorted((each for each in last if each and each.state == "conflict"), key=lambda each: each.id)


def landed(records: Sequence[MergeRecord]) -> MergeRecord | None:
    """Return the last merge that stands: whatever clashed or was taken back since, its work is there."""
    stands = [record for record in records if record.state in ("merged", "undoing")]
    moved = [record for record in stands if record.before != record.after]
    since = max((record.id for record in records if record.state == "undone"), default=0)
    return (moved or [record for record in stands if record.id > since] or [None])[-1]


def standing(store: Store, run: str, ref: str) -> list[MergeRecord]:
    """Return the merges of a run that moved a branch and were not taken back."""
    records = [record for record in of_run(store, run) if record.ref == ref and record.before != record.after]
    return [record for record in records if record.state in ("merged", "undoing")]


def _read(store: Store, query: str, **values: object) -> list[MergeRecord]:
    return [msgspec.structs.replace(_MERGE.decode(row["record"]), id=row["id"]) for row in store.rows(query, **values)]


def add_queue(store: Store, record: QueueRecord) -> QueueRecord:
    with store.transaction():
        rows = store.rows("add_queue", git_dir=record.git_dir, record=ENCODER.encode(record))
    return msgspec.structs.replace(record, id=cast("int", rows[0]["id"]))


def save_queue(store: Store, record: QueueRecord) -> None:
    with store.transaction():
        store.do("save_queue", id=record.id, over=int(record.over), record=ENCODER.encode(record))


def open_queues(store: Store, git_dir: str) -> list[QueueRecord]:
    return [
        msgspec.structs.replace(_QUEUE.decode(row["record"]), id=row["id"])
        for row in store.rows("open_queues", git_dir=git_dir)
    ]
