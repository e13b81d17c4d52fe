"""Take merges back: refs and files exactly as they were, or not at all."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from corral.attempt.repositories import repository_of, require
from corral.engine.merge import reverted
from corral.engine.merge.apply import BranchMover, Say
from corral.model.errors import BadRequest
from corral.model.events import Noted
from corral.model.merge import BranchCheckout, MergeRecord
from corral.store.interface import Store
from corral.world.git import merge_commits
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


class UndoPreview(Struct, frozen=True, kw_only=True):
    """A merge as it could be taken back."""

    record: MergeRecord
    files: tuple[str, ...] = ()
    places: tuple[BranchCheckout, ...] = ()
    trouble: str = ""  #: why it cannot be, in words


async def preview_undo(store: Store, run: str) -> UndoPreview | None:
    """Return what undoing the last merge of a run would do; None if nothing of it is merged."""
    landed = [each for each in store.merges.of_run(run) if each.state == "merged"]
    moved = [each for each in landed if each.before != each.after]
    if not landed:
        return None
    record = (moved or landed)[-1]
    if not moved:
        return UndoPreview(record=record, trouble="it moved nothing: the branch had this already")
    repository = repository_of(store.run(run).plan, store.folder)
    if words := await reverted.reverted_words(repository, record):
        return UndoPreview(record=record, trouble=words)
    now = await repository.commit_of(record.ref)
    if now != record.after:
        newer = await merge_commits.behind(repository, record.after or "", now) if now and record.after else 0
        words = f"{record.into} has {newer} newer commit{'s' if newer != 1 else ''}, which would be lost"
        return UndoPreview(record=record, trouble=words if newer else f"{record.into} is not where the merge left it")
    places = await BranchMover(store, repository, _unsaid).places(record.ref, record.after, record.before)
    files = await repository.names_changed(record.before, record.after or "") if record.before else ()
    trouble = next((f"{each.folder}: {each.trouble}" for each in places if each.trouble), "")
    return UndoPreview(record=record, files=files, places=places, trouble=trouble)


def _unsaid(_: str) -> None:
    """Say nothing."""
