"""What is remembered of repositories; words are found by the full-text index of the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from corral.model import ENCODER
from corral.model.memory import Fact
from corral.store.sql import Database, Row

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
