"""Which run was spawned by which attempt of another."""

from __future__ import annotations

from typing import cast

from corral.store.records import Child
from corral.store.sqlite.database import Database


class Lineage:
    """Parents and children of all runs."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, child: Child) -> None:
        self._store.do("add_child", **{name: getattr(child, name) for name in Child.__struct_fields__})

    def of(self, run: str) -> Child | None:
        """Return how a run came to be, None for one that a person started."""
        found = self._found("child", run=run)
        return found[0] if found else None

    def below_attempt(self, attempt: str) -> list[Child]:
        return self._found("children_of_attempt", attempt=attempt)

    def below_node(self, run: str, node: str) -> list[Child]:
        return self._found("children_of_node", run=run, node=node)

    def hand_over(self, run: str, before: str, attempt: str) -> None:
        """Give the children of an attempt that was cut off, and their letters to it, to the one that goes on."""
        with self._store.transaction():
            self._store.do("hand_children_over", before=before, attempt=attempt)
            self._store.do("hand_letters_over", run=run, before=before, attempt=attempt)

    def below_run(self, run: str) -> list[Child]:
        return self._found("children_of_run", run=run)

    def all_below(self, run: str) -> list[str]:
        """Return the runs below a run, at every depth."""
        return [cast("str", row["run"]) for row in self._store.rows("all_below", run=run)]

    def count(self, root: str) -> int:
        """Return how many runs there are below the one at the top, at every depth."""
        return cast("int", self._store.rows("children_of_root", root=root)[0]["count"])

    def _found(self, query: str, **values: str) -> list[Child]:
        return [
            Child(**{name: row[name] for name in Child.__struct_fields__}) for row in self._store.rows(query, **values)
        ]
