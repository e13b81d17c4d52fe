"""The queue of runs that no process has taken up yet: look, move, hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from corral.engine.views.run_status import waits_for_machine
from corral.model.errors import BadRequest
from corral.model.server import QueuedRun, QueueState
from corral.store.interface import Store

CONCURRENCY = 4


class RunQueue:
    """The queue of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self, most: int = 1000) -> QueueState:
        return QueueState(
            held=self.is_held,
            concurrency=self.concurrency,
            count=self._store.queue.count(),
            waiting=tuple(self._with_reasons(self._store.queue.waiting(most))),
        )

    def _with_reasons(self, waiting: Sequence[QueuedRun]) -> Iterator[QueuedRun]:
        """Say of runs whose repository no server has who has it."""
        words: dict[str, str] = {}
        for each in waiting:
            if each.git_dir not in words:
                words[each.git_dir] = waits_for_machine(self._store, each.git_dir)
            yield structs.replace(each, waits=words[each.git_dir])

    def next(self, most: int) -> list[QueuedRun]:
        return self._store.queue.waiting(most)

    def move(self, name: str, *, priority: int | None, before: str | None = None, first: bool = False) -> QueuedRun:
        """Give a run that waits another priority or place."""
        run = self._store.find(name)
        found = self._store.queue.find(run)
        if found is None:
            raise BadRequest(f"run {run} does not wait in the queue", hint="see `corral queue`")
        other = None
        if before is not None:
            other = self._store.queue.find(self._store.find(before))
            if other is None:
                raise BadRequest(f"run {before} does not wait in the queue", hint="see `corral queue`")
            priority = other.priority
        priority = found.priority if priority is None else priority
        self._store.queue.move(run, priority=priority, first=first, before=other.run if other else None)
        return self._store.queue.find(run) or found

    @property
    def is_held(self) -> bool:
        """Whether nothing is taken up at present."""
        return self._store.queue.value("held") == "yes"

    def hold(self, *, held: bool) -> None:
        self._store.queue.set_value("held", "yes" if held else None)

    @property
    def concurrency(self) -> int:
        return int(self._store.queue.value("concurrency") or CONCURRENCY)

    def set_concurrency(self, number: int) -> None:
        if not 1 <= number <= 1000:
            raise BadRequest(f"{number} runs at once are not possible", hint="1 to 1000")
        self._store.queue.set_value("concurrency", str(number))
