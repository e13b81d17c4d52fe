"""Which runs an engine can drive: it has their repository and all their work, or can fetch what is missing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from corral.attempt.repositories import repository_of
from corral.engine.context import Context
from corral.model import RunPlan
from corral.model.errors import CorralError
from corral.world.git.repository import Repository

AGAIN_SECONDS = 60.0  #: after this time an engine looks again for commits that were missing
log = logging.getLogger("corral.supervisor")


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
