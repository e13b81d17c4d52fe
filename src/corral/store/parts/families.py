"""What agents share: runs that attempts started, mail between them, facts about repositories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import msgspec

from corral.model import ENCODER
from corral.model.memory import Fact
from corral.store.records import Child, MailMessage, Reader
from corral.store.sql import Database, Row


class Mail:
    """The mail of all runs; each step is one transaction."""

    def __init__(self, store: Database, most_deliveries: int) -> None:
        self._store, self._most_deliveries = store, most_deliveries

    def send(self, messages: Sequence[MailMessage], room: Callable[[int, int, int], None]) -> list[int]:
        """Put messages into their boxes, all or none; `room` raises where there is none."""
        with self._store.transaction():
            sent = self._count("mail_sent", attempt=messages[0].sender_attempt)
            room(sent, len(messages), max(self.waiting(each.run, each.box) for each in messages))
            return [self._add(each) for each in messages]

    def take(self, who: Reader, most: int, now: float, until: float) -> list[MailMessage]:
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
        return [_mail_message(row) for row in rows]

    def read(self, who: Reader, messages: Sequence[int], now: float) -> int:
        """Acknowledge messages of one's own boxes; return how many were still to be acknowledged."""
        with self._store.transaction():
            return sum(
                self._store.do("read_mail", id=each, run=who.run, node=who.node, attempt=who.attempt, now=now)
                for each in messages
            )

    def close(self, holder: str, before: float) -> None:
        """Give back what an attempt took and did not acknowledge; remove messages that were read long ago."""
        if self._store.rows("mail_to_close", holder=holder, before=before):  # most attempts have no mail
            with self._store.transaction():
                self._store.do("release_mail", holder=holder)
                self._store.do("forget_mail", before=before)

    def thread(self, who: Reader, thread: str, most: int) -> list[MailMessage]:
        """Return what the reader wrote and got in a thread, oldest first."""
        rows = self._store.rows(
            "mail_of_thread", run=who.run, node=who.node, attempt=who.attempt, thread=thread, most=most
        )
        return [_mail_message(row) for row in reversed(rows)]

    def waiting(self, run: str, box: str) -> int:
        return self._count("mail_waiting", run=run, box=box, most_deliveries=self._most_deliveries)

    def of_run(self, run: str) -> list[MailMessage]:
        return [_mail_message(row) for row in self._store.rows("mail_of_run", run=run)]

    def _count(self, query: str, **values: object) -> int:
        return cast("int", self._store.rows(query, **values)[0]["count"])

    def _add(self, message: MailMessage) -> int:
        values = {
            name: getattr(message, name)
            for name in ("run", "box", "sender", "sender_run", "sender_attempt", "thread", "priority", "text", "at")
        }
        return cast("int", self._store.rows("add_mail", **values)[0]["id"])


def _mail_message(row: Row) -> MailMessage:
    return MailMessage(**{name: row[name] for name in MailMessage.__struct_fields__})


class Lineage:
    """Parents and children of all runs."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, child: Child) -> None:
        self._store.do("add_child", **{name: getattr(child, name) for name in Child.__struct_fields__})

    def of(self, run: str) -> Child | None:
        """Return how a run came to be, None for one that a user started."""
        found = self._children("child", run=run)
        return found[0] if found else None

    def below_attempt(self, attempt: str) -> list[Child]:
        return self._children("children_of_attempt", attempt=attempt)

    def below_node(self, run: str, node: str) -> list[Child]:
        return self._children("children_of_node", run=run, node=node)

    def hand_over(self, run: str, before: str, attempt: str) -> None:
        """Give the children of an attempt that was cut off, and their mail to it, to the one that continues."""
        with self._store.transaction():
            self._store.do("hand_children_over", before=before, attempt=attempt)
            self._store.do("hand_letters_over", run=run, before=before, attempt=attempt)

    def below_run(self, run: str) -> list[Child]:
        return self._children("children_of_run", run=run)

    def all_below(self, run: str) -> list[str]:
        """Return the runs below a run, at every depth."""
        return [cast("str", row["run"]) for row in self._store.rows("all_below", run=run)]

    def count(self, root: str) -> int:
        """Return how many runs there are below the one at the top, at every depth."""
        return cast("int", self._store.rows("children_of_root", root=root)[0]["count"])

    def _children(self, query: str, **values: str) -> list[Child]:
        return [
            Child(**{name: row[name] for name in Child.__struct_fields__}) for row in self._store.rows(query, **values)
        ]


_FILES = msgspec.json.Decoder(tuple[str, ...])


class Memory:
    """The facts of each repository."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def facts(self, repo: str) -> list[Fact]:
        return [_fact(row) for row in self._store.rows("facts", repo=repo)]

    def fact(self, repo: str, name: str) -> Fact | None:
        rows = self._store.rows("fact", repo=repo, number=_number(name))
        return _fact(rows[0]) if rows else None

    def count(self, repo: str) -> int:
        return self._store.rows("count_facts", repo=repo)[0]["count"]

    def best(self, repo: str, most: int) -> list[Fact]:
        """Return what the user approved, most often confirmed first."""
        return [_fact(row) for row in self._store.rows("best_facts", repo=repo, most=most)]

    def search(self, repo: str, words: Sequence[str], most: int, *, every: bool = False) -> list[Fact]:
        """Return the facts that hold some of the words, best match first; `every`: proposals too."""
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        rows = self._store.rows("matching_facts", repo=repo, words=wanted, most=most, every=int(every))
        return [_fact(row) for row in rows]

    def add(self, repo: str, fact: Fact) -> Fact:
        """Store a fact; one of the same text stays as it is and is returned."""
        with self._store.transaction():
            added = self._store.do(
                "add_fact",
                repo=repo,
                text=fact.text,
                source=fact.source,
                files=ENCODER.encode(fact.files).decode(),
                state=fact.state,
                confirmed=fact.confirmed,
                created=fact.created,
            )
            row = self._store.rows("fact_by_text", repo=repo, text=fact.text)[0]
            if added:
                self._store.do("index_fact", number=row["number"], text=fact.text)
        return _fact(row)

    def edit(self, repo: str, fact: Fact) -> None:
        """Change the words or files of a fact."""
        number = _number(fact.id)
        with self._store.transaction():
            for row in self._store.rows("fact", repo=repo, number=number):
                self._store.do("unindex_fact", number=number, text=row["text"])
                self._store.do(
                    "edit_fact", repo=repo, number=number, text=fact.text, files=ENCODER.encode(fact.files).decode()
                )
                self._store.do("index_fact", number=number, text=fact.text)

    def approve(self, repo: str, name: str) -> None:
        with self._store.transaction():
            self._store.do("approve_fact", repo=repo, number=_number(name))

    def drop(self, repo: str, name: str) -> bool:
        """Remove a fact; return whether there was one."""
        number = _number(name)
        with self._store.transaction():
            for row in self._store.rows("fact", repo=repo, number=number):
                self._store.do("unindex_fact", number=number, text=row["text"])
            return self._store.do("drop_fact", repo=repo, number=number) > 0

    def use(self, repo: str, names: Iterable[str], at: float) -> None:
        """Count the facts that go into a prompt, and for each other one that it was left out."""
        with self._store.transaction():
            self._store.do("pass_over_facts", repo=repo)
            for name in names:
                self._store.do("use_fact", repo=repo, number=_number(name), at=at)

    def confirm(self, names: Iterable[str]) -> None:
        """Count approved facts that a proven attempt was given."""
        with self._store.transaction():
            for name in names:
                self._store.do("confirm_fact", number=_number(name))


def _number(name: str) -> int:
    digits = name.removeprefix("m")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else 0


def _fact(row: Row) -> Fact:
    return Fact(
        id=f"m{row['number']}",
        text=row["text"],
        source=row["source"],
        files=_FILES.decode(row["files"]),
        state=row["state"],
        confirmed=row["confirmed"],
        used=row["used"],
        unused=row["unused"],
        created=row["created"],
        last_used=row["last_used"],
    )
