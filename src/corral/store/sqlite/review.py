"""Comments of reviewers in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec
from msgspec import structs

from corral.model import ENCODER
from corral.model.review import Comment
from corral.store.sqlite.database import Database

_COMMENT = msgspec.json.Decoder(Comment)


class SqliteReview:
    """The comments of all runs, by number."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, run: str, comments: Sequence[Comment]) -> list[Comment]:
        """Store new comments; return them with their ids."""
        with self._store.transaction():
            first = cast("int", self._store.rows("next_comment", run=run)[0]["number"])
            named = [structs.replace(each, id=f"c{first + place}") for place, each in enumerate(comments)]
            self.save(run, named)
        return named

    def save(self, run: str, comments: Iterable[Comment]) -> None:
        with self._store.transaction():
            for each in comments:
                self._store.do("put_comment", run=run, number=int(each.id[1:]), record=ENCODER.encode(each))

    def of_run(self, run: str) -> list[Comment]:
        return [_COMMENT.decode(row["record"]) for row in self._store.rows("comments", run=run)]
