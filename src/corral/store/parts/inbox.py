"""The inbox, kept in the store: asked once, answered once, by a user or by its deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from corral.model import ENCODER, Entry, Question
from corral.model.inbox import BY_DEADLINE
from corral.store.parts.run_queue import RunQueue
from corral.store.sql import Database, Row

LAST, OPEN = (
    "inbox_told",
    "inbox_open",
)  #: the last entry that was announced, and announced ones without an announced answer
MOST = 1000  #: entries of one look


class Inbox:
    """What waits for users, and what of it was not announced outside yet."""

    def __init__(self, store: Database, queue: RunQueue) -> None:
        self._store, self._queue = store, queue

    def ask(
        self, question: Question, now: float, replaces: Callable[[Entry], bool] | None = None
    ) -> tuple[Entry, bool]:
        """Put a question where a user finds it; return its entry, and whether it is new.

        The same key is asked once. With `replaces` it is asked again after its answer, and an open entry for which
        that holds takes over the new words.
        """
        with self._store.transaction():
            if replaces and (last := self.of_key(question.key)):
                if not last.is_open:
                    self.free(question.key)
                elif replaces(last):
                    choices = ENCODER.encode(question.choices)
                    self._store.do(
                        "replace_entry", id=int(last.id), text=question.text, context=question.context, choices=choices
                    )
            new = self._store.do(
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
            return _entry(self._store.rows("entry_of_key", key=question.key)[0]), bool(new)

    def find(self, number: str) -> Entry | None:
        rows = (
            self._store.rows("entry", id=int(number))
            if number.isascii() and number.isdigit() and len(number) < 18
            else ()
        )
        return _entry(rows[0]) if rows else None

    def of_key(self, key: str) -> Entry | None:
        rows = self._store.rows("entry_of_key", key=key)
        return _entry(rows[0]) if rows else None

    def waiting(self) -> list[Entry]:
        """Return what nobody has answered, oldest first."""
        return [_entry(row) for row in self._store.rows("waiting_entries")]

    def of_run(self, run: str) -> list[Entry]:
        """Return all that a run ever asked."""
        return [_entry(row) for row in self._store.rows("entries_of_run", run=run)]

    def newest(self, most: int) -> list[Entry]:
        return [_entry(row) for row in self._store.rows("newest_entries", most=most)]

    def answer(self, number: str, text: str, by: str, at: float) -> bool:
        """Answer an entry; return whether this was the one answer that counts."""
        with self._store.transaction():
            return self._store.do("answer_entry", id=int(number), answer=text, by=by, at=at) == 1

    def answer_due(self, now: float) -> list[Entry]:
        """Give the default answer to all whose deadline has passed; return them as they are now."""
        if not self._store.writable or not self._store.rows("due_entries", now=now):
            return []
        with self._store.transaction():
            due = [_entry(row) for row in self._store.rows("due_entries", now=now)]
            for entry in due:
                self._store.do("answer_entry", id=int(entry.id), answer=entry.default, by=BY_DEADLINE, at=now)
        return [entry for each in due if (entry := self.find(each.id))]

    def answered_gates(self, now: float, run: str | None = None) -> dict[str, dict[str, str]]:
        """Return runs that wait for nothing any more but to be resumed: their gates, and what each was answered."""
        found: dict[str, dict[str, str]] = {}
        for row in self._store.rows("answered_gates", now=now, run=run):
            found.setdefault(row["run"], {})[row["node"]] = f"{row['answer']}, by {row['by']}"
        return found

    def note_outcome(self, number: str, outcome: str) -> None:
        """Remember what came of an answer."""
        with self._store.transaction():
            self._store.do("outcome_of_entry", id=int(number), outcome=outcome)

    def free(self, key: str) -> None:
        """Let a key be asked once more: what was asked under it is over, and stays as it is."""
        with self._store.transaction():
            self._store.do("free_key", key=key)

    def withdraw(self, run: str, why: str, at: float, attempt: str | None = None) -> None:
        """Take back what a run, or one attempt of it, asked: nobody would hear the answer any more."""
        with self._store.transaction():
            self._store.do("withdraw_entries", run=run, attempt=attempt, why=why, at=at)

    def begin_news(self) -> None:
        """Begin now: earlier entries are not announced, but the answers to open ones are."""
        newest = self.newest(1)
        self._queue.set_value(LAST, newest[0].id if newest else "0")
        self._queue.set_value(OPEN, ",".join(entry.id for entry in self.waiting()))

    def take_news(self) -> list[tuple[str, Entry]]:
        """Return what is new, oldest first: `inbox.opened` and `inbox.answered`; it then counts as announced."""
        last = int(self._queue.value(LAST) or 0)
        known = [name for name in (self._queue.value(OPEN) or "").split(",") if name]
        fresh = [entry for entry in reversed(self.newest(MOST)) if int(entry.id) > last]
        if not fresh and not known:
            return []
        news: list[tuple[str, Entry]] = [("inbox.opened", entry) for entry in fresh]
        entries = [*(self.find(name) for name in known), *fresh]
        found = [entry for entry in entries if entry is not None]
        news += [("inbox.answered", entry) for entry in found if not entry.is_open]
        left = [entry.id for entry in found if entry.is_open]
        if fresh:
            self._queue.set_value(LAST, fresh[-1].id)
        if left != known:
            self._queue.set_value(OPEN, ",".join(left))
        return news


def _entry(row: Row) -> Entry:
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
