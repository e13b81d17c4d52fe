"""The queue of runs that no process has taken up yet: look, move, hold; and which of them an engine can drive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from corral.attempt.repositories import repository_of
from corral.engine.context import Context
from corral.engine.views.run_status import waits_for_machine
from corral.model import RunPlan
from corral.model.errors import BadRequest, CorralError
from corral.model.server import QueuedRun, QueueState
from corral.store.interface import Store
from corral.world.git.repository import Repository

CONCURRENCY = 4
AGAIN_SECONDS = 60.0  #: after this time an engine looks again for commits that were missing
log = logging.getLogger("corral.supervisor")


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


class RepositoryCheck:
    """What this engine knows of the repositories of runs; it notes in the store which of them it has."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lacking: dict[str, float] = {}  #: runs whose work is not here: when to look again
        self._fetches: dict[str, asyncio.Task[None]] = {}

    async def can_drive(self, run: str) -> bool:
        """Tell whether this engine can drive a run; a base that it lacks is fetched for the next time it is asked."""
        store, place = self._context.store, self._context.place
        plan = store.run(run).plan
        places = store.repositories.places(plan.git_dir)
        if places == [place] or (not places and len(store.queue.servers(time.time())) <= 1):
            return True  # no other engine has it: what is wrong with it is said when the run is resumed
        if not Path(plan.git_dir).exists():
            if place in places:
                store.repositories.forget(plan.git_dir, place)
            return False
        if time.monotonic() < self._lacking.get(run, 0.0) or run in self._fetches:
            return False
        repository = repository_of(plan, self._context.home)
        if await self._lacks(repository, run, plan):
            self._fetches[run] = asyncio.create_task(self._fetch(repository, run, plan))
            return False
        self._lacking.pop(run, None)
        store.repositories.note(plan.git_dir, place, time.time())
        return True

    async def close(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    async def _lacks(self, repository: Repository, run: str, plan: RunPlan) -> list[str]:
        """Return the commits of a run that are not there: another repository at the same path has none of them."""
        records = self._context.store.attempts(run)
        commits = dict.fromkeys(each for each in (plan.base, *(record.attempt.commit for record in records)) if each)
        return [each for each in commits if await repository.commit_of(each) is None]

    async def _fetch(self, repository: Repository, run: str, plan: RunPlan) -> None:
        """Fetch the base of a run; what its attempts made is in no remote, and is not looked for there."""
        from corral.world.forge import remotes  # noqa: PLC0415 -- most engines have all repositories

        try:
            if plan.base and await self._lacks(repository, run, plan) == [plan.base]:
                await remotes.fetch(repository, plan.base)
        except (CorralError, OSError) as error:
            log.info("its base cannot be fetched: %s", error, extra={"run": run})
        finally:
            with contextlib.suppress(CorralError, OSError):
                if await self._lacks(repository, run, plan):
                    self._lacking[run] = time.monotonic() + AGAIN_SECONDS
            del self._fetches[run]
