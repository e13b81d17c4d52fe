"""The end of what waited for an answer until its deadline; called where work is done, never where runs are read."""

from __future__ import annotations

import time

from corral.engine.merge import open_conflicts
from corral.engine.views.run_status import expired_choice
from corral.model import Entry, RunRecord
from corral.model.events import StatusChanged
from corral.rules.text.questions import no_winner
from corral.store.interface import Store


def end_due(store: Store, run: str | None = None) -> None:
    """Give the default answer to all that is due, and end the merges and races, of a run or of all, that waited."""
    if not store.writable:
        return
    now = time.time()
    due = [each.run for each in store.inbox.waiting() if each.about == "choice" and each.deadline <= now]
    for name in [run] if run else dict.fromkeys(due):
        record = store.run(name)
        if entry := expired_choice(store, record, now):
            _end_race(store, record, entry, now)
    store.inbox.answer_due(now)
    open_conflicts.end_expired(store, run)


def _end_race(store: Store, record: RunRecord, entry: Entry, now: float) -> None:
    """Store that a run, which is nothing but a race, has no winner."""
    words = no_winner(entry)
    with store.transaction():
        store.inbox.answer_due(now)
        (node,) = [each for each in store.nodes(record.id) if each.id == entry.node]
        node.status, node.reason = "failed", words
        store.move_node(record.id, node)
        store.note(record.id, StatusChanged("node", node.id, "failed", words), at=now, node=node.id)
        store.move_run(record.id, "failed", words, now)
        store.note(record.id, StatusChanged("run", record.id, "failed", words), at=now)
        store.inbox.note_outcome(entry.id, f"`{node.id}` has no winner")
    store.flush()
