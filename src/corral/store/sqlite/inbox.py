"""The inbox, kept in the store: asked once, answered once, by a person or by its deadline."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from corral.model import ENCODER, Entry, Question
from corral.model.inbox import BY_DEADLINE
from corral.store.sqlite.store import Store


def ask(
    store: Store, question: Question, now: float, replaces: Callable[[Entry], bool] | None = None
) -> tuple[Entry, bool]:
    """Put a question where a person finds it; return its entry, and whether it is new.

    The same key is asked once. With `replaces` it is asked again after its answer, and an open entry for which
    that holds takes over the new words.
    """
    with store.transaction():
        if replaces and (last := of_key(store, question.key)):
            if not last.open:
                free(store, question.key)
            elif replaces(last):
                choices = ENCODER.encode(question.choices)
                store.do(
                    "replace_entry", id=int(last.id), text=question.text, context=question.context, choices=choices
                )
        new = store.do(
            "add_entry",
            key=question.key,
            run=question.run,
            node=question.node,
            attempt=question.attempt,
            kind=question.kind,
            about=question.about,
            text=question.text,
            context=question.context,
            choices=ENCODER.encode(question.choices),
            standard=question.default,
            deadline=question.deadline,
            created=now,
        )
        return _entry(store.rows("entry_of_key", key=question.key)[0]), bool(new)


def find(store: Store, number: str) -> Entry | None:
    rows = store.rows("entry", id=int(number)) if number.isascii() and number.isdigit() and len(number) < 18 else []
    return _entry(rows[0]) if rows else None


def of_key(store: Store, key: str) -> Entry | None:
    rows = store.rows("entry_of_key", key=key)
    return _entry(rows[0]) if rows else None


def waiting(store: Store) -> list[Entry]:
    """Return what nobody has answered, oldest first."""
    return [_entry(row) for row in store.rows("waiting_entries")]


def of_run(store: Store, run: str) -> list[Entry]:
    """Return all that a run ever asked."""
    return [_entry(row) for row in store.rows("entries_of_run", run=run)]


def newest(store: Store, most: int) -> list[Entry]:
    return [_entry(row) for row in store.rows("newest_entries", most=most)]


def answer(store: Store, number: str, text: str, by: str, at: float) -> bool:
    """Answer an entry; return whether this was the one answer that counts."""
    with store.transaction():
        return store.do("answer_entry", id=int(number), answer=text, by=by, at=at) == 1


def answer_due(store: Store, now: float) -> list[Entry]:
    """Give the default answer to all whose deadline has passed; return them as they are now."""
    if not store.writable or not store.rows("due_entries", now=now):
        return []
    with store.transaction():
        due = [_entry(row) for row in store.rows("due_entries", now=now)]
        for entry in due:
            store.do("answer_entry", id=int(entry.id), answer=entry.default, by=BY_DEADLINE, at=now)
    return [entry for each in due if (entry := find(store, each.id))]


def answered_gates(store: Store, now: float, run: str | None = None) -> dict[str, dict[str, str]]:
    """Return runs that wait for nothing any more but to be resumed: their gates, and what each was answered."""
    found: dict[str, dict[str, str]] = {}
    for row in store.rows("answered_gates", now=now, run=run):
        found.setdefault(row["run"], {})[row["node"]] = f"{row['answer']}, by {row['by']}"
    return found


def note_outcome(store: Store, number: str, outcome: str) -> None:
    """Remember what came of an answer."""
    with store.transaction():
        store.do("outcome_of_entry", id=int(number), outcome=outcome)


def free(store: Store, key: str) -> None:
    """Let a key be asked once more: what was asked under it is over, and stays as it is."""
    with store.transaction():
        store.do("free_key", key=key)


def withdraw(store: Store, run: str, why: str, at: float, attempt: str | None = None) -> None:
    """Take back what a run, or one attempt of it, asked: nobody would hear the answer any more."""
    with store.transaction():
        store.do("withdraw_entries", run=run, attempt=attempt, why=why, at=at)


def _entry(row: sqlite3.Row) -> Entry:
    choices: Sequence[str] = msgspec.json.decode(row["choices"], type=list[str])
    return Entry(
        id=str(row["id"]),
        key=row["key"],
        run=row["run"],
        node=row["node"],
        attempt=row["attempt"],
        kind=row["kind"],
        about=row["about"],
        text=row["text"],
        context=row["context"],
        choices=tuple(choices),
        default=row["standard"],
        deadline=row["deadline"],
        created=row["created"],
        answered_at=row["answered_at"],
        answer=row["answer"],
        answered_by=row["answered_by"],
        outcome=row["outcome"],
    )
