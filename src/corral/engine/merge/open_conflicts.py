"""Merges of a run that are in conflict and wait for a person; only what is stored of them."""

from __future__ import annotations

import time

from msgspec import structs

from corral.engine.views.run_status import given_up
from corral.model import OPEN
from corral.model.merge import MergeRecord, Side
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.store.records import merges_in_conflict

SIDES: dict[str, Side] = {"ours": "ours", "theirs": "theirs", "base": "base"}


class OpenConflicts:
    """The merges of one run that are in conflict: one for each branch at most."""

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run

    def of(self, ref: str) -> MergeRecord | None:
        """Return the merge into a branch that waits for its conflicts to be settled."""
        return next((record for record in self.all() if record.ref == ref), None)

    def all(self) -> list[MergeRecord]:
        found, now = self.store.merges.of_run(self.run), time.time()
        if self.store.status(self.run) not in OPEN:  # a run that is not over ends what was given up itself
            found = [each for each in found if not given_up(self.store, each, now)]
        return merges_in_conflict(found)

    def last(self) -> MergeRecord | None:
        found = self.all()
        return found[-1] if found else None

    def keep(self, record: MergeRecord) -> MergeRecord:
        """Store what is in conflict, and put it before a person."""
        before = self.of(record.ref)
        record = self.store.merges.add(record) if before is None else structs.replace(record, id=before.id)
        self.store.merges.save(record)
        question = rules.question(record, time.time())
        with self.store.transaction():
            if (entry := self.store.inbox.of_key(question.key)) and not entry.is_open:
                self.store.inbox.free(question.key)  # that answer did not settle it: a person is asked once more
            self.store.inbox.ask(question, time.time())
        return record

    def over(self, ref: str, words: str, by: str) -> None:
        """Forget what waits for a branch that was moved since by a merge of the run, or back: it is not so any more."""
        for record in self.store.merges.of_run(self.run):
            if record.ref == ref and record.state == "conflict":
                self.drop(record, words, by)

    def drop(self, record: MergeRecord, words: str, by: str = "corral merge") -> None:
        """Forget a merge that is settled or given up; its question needs no answer any more."""
        self.store.merges.drop(record)
        key = rules.question(record, 0.0).key
        for entry in self.store.inbox.of_run(self.run):
            if entry.key == key and entry.is_open:
                self.store.inbox.answer(entry.id, words, by, time.time())
        self.store.inbox.free(key)  # the next merge in conflict may have the same number

    def answer(self, record: MergeRecord) -> Side | None:
        """Return what a person has answered to a conflict: a side for all of it."""
        key = rules.question(record, 0.0).key
        return next(
            (SIDES[entry.answer] for entry in self.store.inbox.of_run(self.run)
             if entry.key == key and entry.answer in ("ours", "theirs")), None,
        )  # fmt: skip
