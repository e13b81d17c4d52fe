"""Letters between agents at work: each is handed out again until somebody says that it was read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import cast

from corral.store.records import Letter, Reader
from corral.store.sqlite.database import Database

Row = sqlite3.Row


class Mail:
    """The letters of all runs; each step is one transaction."""

    def __init__(self, store: Database, most_deliveries: int) -> None:
        self._store, self._most_deliveries = store, most_deliveries

    def send(self, letters: Sequence[Letter], room: Callable[[int, int, int], None]) -> list[int]:
        """Put letters into their boxes, all or none; `room` raises where there is none."""
        with self._store.transaction():
            sent = self._count("mail_sent", attempt=letters[0].sender_attempt)
            room(sent, len(letters), max(self.waiting(each.run, each.box) for each in letters))
            return [self._add(each) for each in letters]

    def take(self, who: Reader, most: int, now: float, until: float) -> list[Letter]:
        """Take what waits, the most urgent first, until it is acknowledged or the time is up."""
        with self._store.transaction():
            self._store.do("free_mail", run=who.run)  # taken by attempts that are over: they read no more
            rows = self._store.rows(
                "mail_to_take",
                run=who.run,
                node=who.node,
                attempt=who.attempt,
                now=now,
                most=most,
                most_deliveries=self._most_deliveries,
            )
            for row in rows:
                self._store.do("take_mail", id=row["id"], holder=who.attempt, until=until)
        return [_letter(row) for row in rows]

    def read(self, who: Reader, letters: Sequence[int], now: float) -> int:
        """Acknowledge letters of one's own boxes; return how many were still to be acknowledged."""
        with self._store.transaction():
            return sum(
                self._store.do("read_mail", id=each, run=who.run, node=who.node, attempt=who.attempt, now=now)
                for each in letters
            )

    def release(self, holder: str) -> None:
        """Give back what an attempt took and did not acknowledge."""
        with self._store.transaction():
            self._store.do("release_mail", holder=holder)

    def thread(self, who: Reader, thread: str, most: int) -> list[Letter]:
        """Return what the reader wrote and got in a thread, oldest first."""
        rows = self._store.rows(
            "mail_of_thread", run=who.run, node=who.node, attempt=who.attempt, thread=thread, most=most
        )
        return [_letter(row) for row in reversed(rows)]

    def known(self, thread: str) -> bool:
        return bool(self._store.rows("thread_known", thread=thread))

    def waiting(self, run: str, box: str) -> int:
        return self._count("mail_waiting", run=run, box=box, most_deliveries=self._most_deliveries)

    def of_run(self, run: str) -> list[Letter]:
        return [_letter(row) for row in self._store.rows("mail_of_run", run=run)]

    def forget(self, before: float) -> None:
        """Remove letters that were read long ago."""
        with self._store.transaction():
            self._store.do("forget_mail", before=before)

    def _count(self, query: str, **values: object) -> int:
        return cast("int", self._store.rows(query, **values)[0]["count"])

    def _add(self, letter: Letter) -> int:
        values = {
            name: getattr(letter, name)
            for name in ("run", "box", "sender", "sender_run", "sender_attempt", "thread", "priority", "text", "at")
        }
        return cast("int", self._store.rows("add_mail", **values)[0]["id"])


def _letter(row: Row) -> Letter:
    return Letter(**{name: row[name] for name in Letter.__struct_fields__})
