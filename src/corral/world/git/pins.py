"""Refs that hold the commits a run starts from, so that `git gc` in the repository takes none of them away."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from corral.world.git import incoming_objects, snapshots
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository, loose_parents

FOLDER = "refs/corral/bases"
TRIES = 3


async def pin(repository: Repository, name: str, commit: str) -> None:
    """Hold a commit for a run, or for an attempt, until `release` or `clean`."""
    ref = f"{FOLDER}/{name}"
    file = repository.git_dir / ref
    with contextlib.suppress(OSError):
        if file.read_text().strip() == commit:
            return
    if not await asyncio.to_thread(_write, repository, file, commit):
        await repository.git("update-ref", ref, commit)


async def combine_and_pin(
    repository: Repository, name: str, combine: Callable[[Repository], Awaitable[CombinedCommit]]
) -> CombinedCommit:
    """Hold a commit that is combined just now: what no ref leads to yet lies where no `git gc` looks."""
    with incoming_objects.quarantine(repository) as folder:
        found = await combine(repository.apart(incoming_objects.environment(folder)))
        if found.commit is None:
            return found
        await incoming_objects.pack_up(repository, folder)
        with incoming_objects.move_in(repository, folder):
            await pin(repository, name, found.commit)
    return found


async def release(repository: Repository, run: str, commits: Sequence[str]) -> None:
    """Let go of what the work of a run that is done leads to by itself; the rest stays until `clean`."""
    held = [
        each
        for each in await pinned_commits(repository, run)
        if any(each.commit in loose_parents(repository.git_dir, commit) for commit in commits)
        or await _is_in_history(repository, each.commit, commits)
    ]
    await snapshots.edit_refs(repository, [(each.ref, None) for each in held])


async def remove(repository: Repository, run: str) -> None:
    """Let go of all that is held for a run and its attempts."""
    await snapshots.edit_refs(repository, [(each.ref, None) for each in await pinned_commits(repository, run)])


async def pinned_commits(repository: Repository, run: str) -> list[snapshots.Snapshot]:
    """Return what is held for a run and its attempts."""
    return await snapshots.list_snapshots(repository, [f"{FOLDER}/{run}", f"{FOLDER}/{run}-*"])


async def _is_in_history(repository: Repository, commit: str, commits: Sequence[str]) -> bool:
    for each in commits:
        if (await repository.git("merge-base", "--is-ancestor", commit, each, fine=(0, 1, 128))).code == 0:
            return True
    return False


def _write(repository: Repository, file: Path, commit: str) -> bool:
    """Write a new ref as git lays it down, without starting git; tell whether that was possible."""
    if (repository.git_dir / "reftable").is_dir() or file.exists():
        return False
    owner, lock = repository.owner, file.with_name(f"{file.name}.lock")
    for _ in range(TRIES):  # git removes empty folders
        try:
            for folder in (file.parent.parent, file.parent):
                if not folder.is_dir():
                    folder.mkdir(exist_ok=True)
                    if owner:
                        os.chown(folder, owner.uid, owner.gid)
            descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        with os.fdopen(descriptor, "w") as written:
            written.write(f"{commit}\n")
            written.flush()
            os.fsync(descriptor)
            if owner:
                os.fchown(descriptor, owner.uid, owner.gid)
        lock.rename(file)
        return True
    return False
