"""Folders in which users try results; `corral clean` lists and removes them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from corral.attempt.repositories import repository_of, require
from corral.model import Attempt, RunPlan
from corral.model.errors import BadRequest
from corral.world.git import hidden_refs, merge_commits

FOLDER = "opened"  #: of the state folder: one folder for each attempt


class OpenedFolder(Struct, frozen=True, kw_only=True):
    run: str
    attempt: str
    commit: str
    folder: str
    new: bool  #: it was not there before


async def open_result(home: Path, run: str, plan: RunPlan, attempt: Attempt) -> OpenedFolder:
    """Lay the files of an attempt's commit into a folder of the user's; one that is there stays as it is."""
    if attempt.commit is None:
        raise BadRequest(f"{attempt.id} changed nothing: there is nothing to try", hint=f"corral logs {run}")
    folder = opened_folder(home, attempt.id)
    new = not folder.exists()
    if new:
        repository = repository_of(plan, home)
        await require(repository, run, [attempt.commit])
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await hidden_refs.lay_files(
            repository, attempt.commit, folder, await merge_commits.neutral_environment(repository)
        )
    return OpenedFolder(run=run, attempt=attempt.id, commit=attempt.commit, folder=str(folder), new=new)


def opened_folder(home: Path, attempt: str) -> Path:
    return home / FOLDER / attempt
