"""Races that waited for a user's choice until its deadline: nobody drives them, and they have no winner."""

from __future__ import annotations

import time

from corral.model import RunRecord
from corral.model.events import Moved
from corral.rules.text.questions import no_winner
from corral.store.sqlite import inbox
from corral.store.sqlite.store import Store
from corral.world import process_identity


def end(store: Store, record: RunRecord) -> bool:
    """End a run that is nothing but such a race; return whether it did. Longer flows are ended by who resumes them."""
    driven = record.owner is not None and process_identity.alive(record.owner) is not False
    if record.status != "waiting" or driven or len(record.plan.flow.nodes) != 1 or not store.writable:
        return False
    now = time.time()
    due = [each for each in inbox.of_run(store, record.id) if each.about == "choice" and each.open]
    if not due or due[-1].deadline > now:
        return False
    with store.transaction():
        inbox.answer_due(store, now)
        entry = inbox.find(store, due[-1].id) or due[-1]
        (node,) = [each for each in store.nodes(record.id) if each.id == entry.node]
        words = no_winner(entry)
        node.status, node.reason = "failed", words
        store.move_node(record.id, node)
        store.note(record.id, Moved(f"node {node.id}", "failed", words), at=now, node=node.id)
        store.move_run(record.id, "failed", words, now)
        store.note(record.id, Moved(f"run {record.id}", "failed", words), at=now)
        inbox.note_outcome(store, entry.id, f"`{node.id}` has no winner")
    store.flush()
    return True
