"""What undoing a merge would bring back, and what would keep it from that; nothing is changed."""

from __future__ import annotations

from msgspec import Struct

from corral.attempt.repositories import repository_of
from corral.engine.merge import reverted
from corral.engine.merge.apply import BranchMover
from corral.model.merge import MergeRecord, Place
from corral.store.interface import Store
from corral.world.git import merge_commits


class Undoing(Struct, frozen=True, kw_only=True):
    """A merge as it could be taken back."""

    record: MergeRecord
    files: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    trouble: str = ""  #: why it cannot be, in words


async def undoing(store: Store, run: str) -> Undoing | None:
    """Return what undoing the last merge of a run would do; None if nothing of it is merged."""
    landed = [each for each in store.merges.of_run(run) if each.state == "merged"]
    moved = [each for each in landed if each.before != each.after]
    if not landed:
        return None
    record = (moved or landed)[-1]
    if not moved:
        return Undoing(record=record, trouble="it moved nothing: the branch had this already")
    repository = repository_of(store.run(run).plan, store.folder)
    if words := await reverted.taken_back(repository, record):
        return Undoing(record=record, trouble=words)
    now = await repository.commit_of(record.ref)
    if now != record.after:
        newer = await merge_commits.behind(repository, record.after or "", now) if now and record.after else 0
        words = f"{record.into} has {newer} newer commit{'s' if newer != 1 else ''}, which would be lost"
        return Undoing(record=record, trouble=words if newer else f"{record.into} is not where the merge left it")
    places = await BranchMover(store, repository, _unsaid).places(record.ref, record.after, record.before)
    files = await repository.names_changed(record.before, record.after or "") if record.before else ()
    trouble = next((f"{each.folder}: {each.trouble}" for each in places if each.trouble), "")
    return Undoing(record=record, files=files, places=places, trouble=trouble)


def _unsaid(_: str) -> None:
    """Say nothing."""
