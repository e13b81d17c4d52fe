"""What of the inbox was not told to anybody outside yet: entries since the last look, and answers to those known."""

from __future__ import annotations

from corral.model import Entry
from corral.store.sqlite import inbox, run_queue
from corral.store.sqlite.store import Store

LAST, OPEN = "inbox_told", "inbox_open"  #: the last entry that was told, and those told whose answer was not
MOST = 1000  #: entries of one look


def forget(store: Store) -> None:
    """Begin now: what is in the inbox already is not told, but the answer to what still waits is."""
    newest = inbox.newest(store, 1)
    run_queue.set_value(store, LAST, newest[0].id if newest else "0")
    run_queue.set_value(store, OPEN, ",".join(entry.id for entry in inbox.waiting(store)))


def take(store: Store) -> list[tuple[str, Entry]]:
    """Return what is new, oldest first: `inbox.opened` and `inbox.answered`; it counts as told from here on."""
    last = int(run_queue.value(store, LAST) or 0)
    known = [name for name in (run_queue.value(store, OPEN) or "").split(",") if name]
    fresh = [entry for entry in reversed(inbox.newest(store, MOST)) if int(entry.id) > last]
    if not fresh and not known:
        return []
    told: list[tuple[str, Entry]] = [("inbox.opened", entry) for entry in fresh]
    entries = [*(inbox.find(store, name) for name in known), *fresh]
    found = [entry for entry in entries if entry is not None]
    told += [("inbox.answered", entry) for entry in found if not entry.open]
    left = [entry.id for entry in found if entry.open]
    if fresh:
        run_queue.set_value(store, LAST, fresh[-1].id)
    if left != known:
        run_queue.set_value(store, OPEN, ",".join(left))
    return told
