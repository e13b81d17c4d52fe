"""Merges in conflict that were given up in the inbox, by the user or by their deadline: their end."""

from __future__ import annotations

import time

from corral.engine.merge.open_conflicts import OpenConflicts
from corral.engine.views.run_status import ABORT, given_up
from corral.model import OPEN, Entry
from corral.model.events import Noted
from corral.model.inbox import BY_DEADLINE
from corral.model.merge import MergeRecord
from corral.store.interface import Store


def end(store: Store, run: str | None = None, *, running: bool = False) -> list[str]:
    """Forget the merges that were given up, of a run or of all; note in its log why. Return that, in words.

    A run that is not over ends its own merges itself, as one of its nodes; then `running` is true.
    """
    now = time.time()
    if not any(given_up(store, record, now) for record in store.merges.conflicting(run)) or not store.writable:
        return []
    ended: list[str] = []
    with store.transaction():
        store.inbox.answer_due(now)
        for record in store.merges.conflicting(run):
            entry = given_up(store, record, now)
            if entry is None or (store.run(record.run).status in OPEN) != running:
                continue
            words = _words(record, entry)
            OpenConflicts(store, record.run).drop(record, ABORT)
            store.inbox.note_outcome(entry.id, f"nothing was moved; to try again: corral merge {record.run}")
            store.note(record.run, Noted(words), at=now)
            ended.append(words)
    if ended:
        store.flush()
    return ended


def _words(record: MergeRecord, entry: Entry) -> str:
    names = ", ".join(conflict.path for conflict in record.conflicts[:5])
    late = entry.answered_by == BY_DEADLINE
    why = "nobody settled it in time" if late else f"given up by {entry.answered_by}"
    return f"the merge into {record.into} has ended: it was in conflict in {names}, and {why}"
