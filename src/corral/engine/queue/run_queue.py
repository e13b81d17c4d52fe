"""The queue of runs that no process has taken up yet: look, move, hold."""

from __future__ import annotations

from corral.model.errors import BadRequest
from corral.model.server import QueueState, Waiting
from corral.store.sqlite import run_queue
from corral.store.sqlite.store import Store

CONCURRENCY = 4


class RunQueue:
    """The queue of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self, most: int = 1000) -> QueueState:
        return QueueState(
            held=self.held,
            concurrency=self.concurrency,
            count=run_queue.count(self._store),
            waiting=tuple(run_queue.waiting(self._store, most)),
        )

    def next(self, most: int) -> list[Waiting]:
        return run_queue.waiting(self._store, most)

    def move(self, name: str, *, priority: int | None, before: str | None = None, first: bool = False) -> Waiting:
        """Give a run that waits another priority or place."""
        run = self._store.find(name)
        found = run_queue.find(self._store, run)
        if found is None:
            raise BadRequest(f"run {run} does not wait in the queue", hint="see `corral queue`")
        other = None
        if before is not None:
            other = run_queue.find(self._store, self._store.find(before))
            if other is None:
                raise BadRequest(f"run {before} does not wait in the queue", hint="see `corral queue`")
            priority = other.priority
        priority = found.priority if priority is None else priority
        run_queue.move(self._store, run, priority=priority, first=first, before=other.run if other else None)
        return run_queue.find(self._store, run) or found

    @property
    def held(self) -> bool:
        """Whether nothing is taken up at present."""
        return run_queue.value(self._store, "held") == "yes"

    def hold(self, *, held: bool) -> None:
        run_queue.set_value(self._store, "held", "yes" if held else None)

    @property
    def concurrency(self) -> int:
        return int(run_queue.value(self._store, "concurrency") or CONCURRENCY)

    def set_concurrency(self, number: int) -> None:
        if not 1 <= number <= 1000:
            raise BadRequest(f"{number} runs at once are not possible", hint="1 to 1000")
        run_queue.set_value(self._store, "concurrency", str(number))
