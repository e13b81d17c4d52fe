"""Merges in the store: what was moved from where to where, so that it can be finished, shown and taken back."""

from __future__ import annotations

from typing import cast

import msgspec

from corral.model import ENCODER
from corral.model.merge import MergeRecord, QueueRecord
from corral.store.sqlite.database import Database

_MERGE = msgspec.json.Decoder(MergeRecord)
_QUEUE = msgspec.json.Decoder(QueueRecord)


class SqliteMerges:
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
                record=ENCODER.encode(record),
            )
        return msgspec.structs.replace(record, id=cast("int", rows[0]["id"]))

    def save(self, *records: MergeRecord) -> None:
        with self._store.transaction():
            for record in records:
                self._store.do("save_merge", id=record.id, state=record.state, record=ENCODER.encode(record))

    def drop(self, record: MergeRecord) -> None:
        """Forget a merge of which nothing came."""
        with self._store.transaction():
            self._store.do("drop_merge", id=record.id)

    def of_run(self, run: str) -> list[MergeRecord]:
        return self._read("merges_of_run", run=run)

    def of_repository(self, git_dir: str) -> list[MergeRecord]:
        return self._read("merges_of_repository", git_dir=git_dir)

    def everything(self) -> list[MergeRecord]:
        return self._read("all_merges")

    def unfinished(self, git_dir: str) -> list[MergeRecord]:
        """Return what was begun in a repository and not brought to its end."""
        return self._read("unfinished_merges", git_dir=git_dir)

    def conflicting(self, run: str | None = None) -> list[MergeRecord]:
        """Return what is stored as in conflict, of a run or of all."""
        return self._read("conflicting_merges", run=run)

    def standing(self, run: str, ref: str) -> list[MergeRecord]:
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
        return [
            msgspec.structs.replace(_QUEUE.decode(row["record"]), id=row["id"])
            for row in self._store.rows("open_queues", git_dir=git_dir)
        ]
