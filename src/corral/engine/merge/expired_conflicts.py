"""Merges in conflict that were given up in the inbox, by a person or because nobody answered in time: they end."""

from __future__ import annotations

import time

from corral.engine import expired_choices
from corral.engine.merge.open_conflicts import Waiting
from corral.engine.views.answered_runs import conflict_question
from corral.model import OPEN, Entry
from corral.model.events import Noted
from corral.model.merge import MergeRecord
from corral.store.sqlite import inbox, merges
from corral.store.sqlite.store import Store

ABORT = "abort"


def end(store: Store, run: str | None = None, *, running: bool = False) -> list[str]:
    """Forget the merges that were given up, of a run or of all; say in its log why. Return that, in words.

    A run that is not over ends its own merges itself, as one of its steps; then `running` is true.
    """
    records = merges.conflicting(store, run)
    if not records or not store.writable:
        return []
    told: list[str] = []
    with store.transaction():
        inbox.answer_due(store, time.time())
        for record in records:
            entry = conflict_question(store, record)
            if entry is None or entry.answer != ABORT or (store.run(record.run).status in OPEN) != running:
                continue
            words = _words(record, entry)
            Waiting(store, record.run).drop(record, ABORT)
            inbox.note_outcome(store, entry.id, f"nothing was moved; to try again: corral merge {record.run}")
            store.note(record.run, Noted(words), at=time.time())
            told.append(words)
    if told:
        store.flush()
    return told


def end_overdue(store: Store, run: str) -> None:
    """End what waited in a run until its deadline: a race that nobody decided, merges that were given up."""
    if (record := store.run(run)).status == "waiting":
        expired_choices.end(store, record)
    end(store, run)


def _words(record: MergeRecord, entry: Entry) -> str:
    names = ", ".join(conflict.path for conflict in record.conflicts[:5])
    late = entry.answered_by == inbox.BY_DEADLINE
    why = "nobody settled it in time" if late else f"given up by {entry.answered_by}"
    return f"the merge into {record.into} has ended: it was in conflict in {names}, and {why}"
