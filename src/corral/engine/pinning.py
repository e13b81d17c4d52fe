"""The base of a run, held by a ref while the run may still need it."""

from __future__ import annotations

import contextlib

from corral.engine.places import repository_of
from corral.errors import CorralError
from corral.world import pins
from corral.world.store.sqlite import Store


async def hold(store: Store, run: str) -> None:
    """Hold the base of a run that starts or resumes: older runs have no ref, and one that was done let go of it."""
    plan = store.run(run).plan
    repository = repository_of(plan, store.folder)
    if plan.base and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # gone: the attempts report it
            await pins.pin(repository, run, plan.base)


async def release(store: Store, run: str) -> None:
    """Let go of the base of a run that is done: the commits that it made lead to it."""
    record = store.run(run)
    if record.status != "done" or not record.plan.base:
        return
    commits = [each.attempt.commit for each in store.attempts(run) if each.attempt.commit]
    repository = repository_of(record.plan, store.folder)
    if commits and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # `clean` does it, too
            await pins.release(repository, run, commits)
