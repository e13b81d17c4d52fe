"""Take merges back: refs and files exactly as they were, or not at all."""

from __future__ import annotations

import time
from pathlib import Path

from corral.attempt.repositories import repository_of, require
from corral.engine.merge.apply import BranchMover, Say
from corral.model.errors import BadRequest
from corral.model.events import Noted
from corral.model.merge import MergeRecord
from corral.store.interface import Store
from corral.world.git import repository as git


async def undo(store: Store, run: str | None, folder: Path, say: Say) -> MergeRecord:
    """Take back the last merge of a run, or the last of the repository that `folder` is in."""
    record = _last_of_run(store, run) if run else await _last_here(store, folder)
    repository = repository_of(store.run(record.run).plan, store.folder)
    await require(repository, record.run, [])
    lander = BranchMover(store, repository, say)
    async with lander.alone():
        await lander.recover()
        now = next((each for each in store.merges.of_run(record.run) if each.id == record.id), None)
        if now is None or now.state != "merged":
            raise BadRequest(f"the merge of {record.run} is not there any more to be undone")
        undone = await lander.take_back(now)
    store.note(record.run, Noted(f"the merge into {record.into} was undone"), at=time.time())
    store.flush()
    return undone


def _last_of_run(store: Store, run: str) -> MergeRecord:
    records = store.merges.of_run(run)
    merged = [record for record in records if record.state in ("merged", "begun", "undoing")]
    if not merged:
        undone = any(record.state == "undone" for record in records)
        raise BadRequest(f"the merge of run {run} is undone already" if undone else f"run {run} is not merged")
    moved = [record for record in merged if record.before != record.after]
    return (moved or merged)[-1]


async def _last_here(store: Store, folder: Path) -> MergeRecord:
    found = await git.discover(folder)
    records = store.merges.of_repository(str(found.repository.git_dir)) if found else store.merges.everything()
    merged = [
        record
        for record in records
        if record.state in ("merged", "begun", "undoing") and record.before != record.after  # the others moved nothing
    ]
    if not merged:
        where = f" in {found.repository.folder}" if found else ""
        raise BadRequest(f"nothing was merged{where} that could be undone", hint="name a run: corral undo RUN")
    return merged[-1]
