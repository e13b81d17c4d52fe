"""Whether what was merged is still in its branch: a person may have taken it back with git itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from msgspec import UNSET, structs

from corral.attempt.repositories import repository_of
from corral.engine.merge import uncommitted
from corral.model import MergeState, Run
from corral.model.errors import CorralError
from corral.model.merge import MergeRecord
from corral.store.interface import Store
from corral.store.records import merged_last
from corral.world.git import changes, merge_commits
from corral.world.git.repository import Repository


async def reverted_words(repository: Repository, record: MergeRecord) -> str:
    """Say what became of a merge that its branch has nothing of any more; empty where it still has some of it."""
    if record.strategy == "apply":
        return await uncommitted.reverted_words(repository, record)
    tip = await repository.commit_of(record.ref)
    if tip is None:
        return f"the branch {record.into} is gone"
    if record.before is None or record.after is None or tip == record.after:
        return ""
    if await _is_still_merged(repository, tip, record.before, record.after):
        return ""
    return f"{record.into} has nothing of it any more: it was taken back there with git"


async def _is_still_merged(repository: Repository, tip: str, before: str, after: str) -> bool:
    """Tell whether a branch has some of a merge: by what its files hold, else by what its history says."""
    if None in [await repository.commit_of(commit) for commit in (before, after)]:
        return False  # nobody needs these commits any more
    has = await merge_commits.has_some(repository, tip, before, after)
    there = await merge_commits.is_ancestor(repository, after, tip)
    # Files that only came with it and are not there any more may as well have been moved: then history must say it.
    if has or (has is False and not (there and await merge_commits.only_adds(repository, before, after))):
        return has
    if not there:  # rewritten, as by `git commit --amend`, or taken back and changed since
        return await changes.keeps_lines(repository, tip, before, after)
    return not await merge_commits.is_reverted(repository, tip, before, after)


async def reverted_merges(repository: Repository, records: Sequence[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that their branches have nothing of any more."""
    return [record for record in records if await reverted_words(repository, record)]


async def without_reverted_merge(store: Store, run: Run) -> Run:
    """Return a run document that claims no merge which its branch has nothing of any more."""
    record = merged_last(store.merges.of_run(run.run)) if run.merge.status == "merged" else None
    if record is None or record.before == record.after:
        return run
    repository = repository_of(store.run(run.run).plan, store.folder)
    words = ""
    with contextlib.suppress(CorralError):  # what cannot be found out now is told as it is stored
        words = await reverted_words(repository, record) if repository.git_dir.exists() else ""
        if words and record.after and await repository.commit_of(record.ref) is None:  # perhaps merged, and deleted
            words = "" if await merge_commits.is_on_user_branch(repository, record.after) else words
    if words and run.merge.others:
        first, *rest = run.merge.others
        run.merge = structs.replace(first, others=tuple(rest) or UNSET)
    elif words:
        run.merge = MergeState(status="undone", into=record.into, why=words)
    return run


def mark_reverted(record: MergeRecord, at: float) -> MergeRecord:
    """Return a merge as it is stored once it is known that a person took it back."""
    return structs.replace(record, state="undone", undone=record.undone or at, by_hand=True)
