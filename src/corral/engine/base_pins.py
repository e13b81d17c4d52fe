"""The base of a run, held by a ref while the run may still need it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.attempt.repositories import repository_of
from corral.model import RunPlan
from corral.model.errors import CorralError
from corral.store.interface import Store
from corral.world import process_identity
from corral.world.git import hidden_refs
from corral.world.git.repository import Repository

FOLDER = "pins"  #: of the state folder: a file for each base that is held for a run which is not stored yet


class _PendingRun(Struct):
    """A run that is about to be stored: who makes it, and where its base is held."""

    owner: str
    folder: str
    git_dir: str


def begin(home: Path, run: str, owner: str, plan: RunPlan) -> None:
    """Note that the base of a run will be held before the run is stored: its process may be killed in between."""
    file = home / FOLDER / run
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(msgspec.json.encode(_PendingRun(owner, plan.repo, plan.git_dir)))


def end(home: Path, run: str) -> None:
    """Forget that note: the run is stored, or its base is not held any more."""
    (home / FOLDER / run).unlink(missing_ok=True)


async def release_pending(store: Store) -> None:
    """Let go of bases that were held for runs which were never stored: the processes that made them are gone."""
    known = {line.run for line in store.list_runs()}
    for file in sorted((store.folder / FOLDER).glob("*")):
        with contextlib.suppress(CorralError, OSError, msgspec.DecodeError):
            begun = msgspec.json.decode(file.read_bytes(), type=_PendingRun)
            if process_identity.is_alive(begun.owner) is not False:
                continue  # at work, or on another machine
            git_dir = Path(begun.git_dir)
            if file.name not in known and git_dir.exists():
                work_tree = not git_dir.is_relative_to(store.folder)  # as of a plain folder
                await hidden_refs.remove(Repository(Path(begun.folder), git_dir, work_tree=work_tree), file.name)
            file.unlink()


async def hold(store: Store, run: str) -> None:
    """Hold the base of a run that starts or resumes: older runs have no ref, and one that was done let go of it."""
    plan = store.run(run).plan
    repository = repository_of(plan, store.folder)
    if plan.base and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # gone: the attempts report it
            await hidden_refs.pin(repository, run, plan.base)


async def release(store: Store, run: str) -> None:
    """Let go of the base of a run that is done: the commits that it made lead to it."""
    record = store.run(run)
    if record.status != "done" or not record.plan.base:
        return
    commits = [each.attempt.commit for each in store.attempts(run) if each.attempt.commit]
    repository = repository_of(record.plan, store.folder)
    if commits and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # `clean` does it, too
            await hidden_refs.release(repository, run, commits)
