"""The queue of runs that nobody has taken up yet, what was submitted under which key, and the server's own values."""

from __future__ import annotations

import sqlite3

import msgspec

from corral.model import ENCODER, RunRecord
from corral.model.server import Serving, Waiting
from corral.store.sqlite.store import Store

KEEP_SECONDS = 7 * 86_400.0  #: how long a key is remembered


def enqueue(store: Store, record: RunRecord, *, priority: int, by: str, key: tuple[str, str] | None = None) -> None:
    """Store a run that no process owns, at the end of its priority; and under a key, so that it is not made twice."""
    with store.transaction():
        store.add_run(record)
        last = store.rows("queue_edge", priority=priority)[0]["last"] or 0.0
        store.do("enqueue", run=record.id, priority=priority, place=last + 1.0, by=by, at=record.created)
        if key:
            store.do("forget_submissions", before=record.created - KEEP_SECONDS)
            store.do("add_submission", key=key[0], digest=key[1], run=record.id, at=record.created)


def put_back(store: Store, run: str, priority: int, by: str, at: float) -> None:
    """Let a run that is known be taken up, at the end of its priority."""
    with store.transaction():
        last = store.rows("queue_edge", priority=priority)[0]["last"] or 0.0
        store.do("leave_queue", run=run)
        store.do("enqueue", run=run, priority=priority, place=last + 1.0, by=by, at=at)


def submitted(store: Store, key: str) -> tuple[str, str] | None:
    """Return the digest of what was submitted under a key, and its run."""
    rows = store.rows("submission", key=key)
    return (rows[0]["digest"], rows[0]["run"]) if rows else None


def waiting(store: Store, most: int = 1000) -> list[Waiting]:
    """Return what waits, in the order in which it is taken up."""
    return [_waiting(row) for row in store.rows("waiting_runs", most=most)]


def find(store: Store, run: str) -> Waiting | None:
    rows = store.rows("in_queue", run=run)
    return _waiting(rows[0]) if rows else None


def count(store: Store) -> int:
    return store.rows("count_waiting")[0]["count"]


def leave(store: Store, run: str) -> None:
    """Take a run off the queue: somebody drives it."""
    if store.rows("in_queue", run=run):
        with store.transaction():
            store.do("leave_queue", run=run)


def move(store: Store, run: str, *, priority: int, first: bool, before: str | None = None) -> bool:
    """Give a run another priority, and a place among those of it: the first, the last, or just before another."""
    with store.transaction():
        edge = store.rows("queue_edge", priority=priority)[0]
        place = (edge["first"] or 0.0) - 1.0 if first else (edge["last"] or 0.0) + 1.0
        if before is not None and (other := find(store, before)) is not None:
            earlier = [each.place for each in waiting(store) if each.priority == priority and each.place < other.place]
            place = ((max(earlier) if earlier else other.place - 2.0) + other.place) / 2
        return store.do("place_in_queue", run=run, priority=priority, place=place) == 1


def value(store: Store, name: str) -> str | None:
    rows = store.rows("value", name=name)
    return rows[0]["value"] if rows else None


def set_value(store: Store, name: str, text: str | None) -> None:
    with store.transaction():
        if text is None:
            store.do("drop_value", name=name)
        else:
            store.do("set_value", name=name, value=text)


def serving(store: Store) -> Serving | None:
    """Return who serves this store; it may be dead."""
    text = value(store, "serving")
    return msgspec.json.decode(text, type=Serving) if text else None


def set_serving(store: Store, by: Serving | None) -> None:
    set_value(store, "serving", ENCODER.encode(by).decode() if by else None)


def _waiting(row: sqlite3.Row) -> Waiting:
    return Waiting(run=row["run"], priority=row["priority"], place=row["place"], by=row["by"], at=row["at"])
