"""Work of a run as uncommitted changes of a checkout: put there, and taken back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral.model.errors import BadRequest, CorralError
from corral.model.merge import BranchCheckout, MergeRecord
from corral.rules.merge.merge import in_both
from corral.store.interface import Store
from corral.world.git import checkout_state, merge_commits, move_branch
from corral.world.git.checkout_state import Change
from corral.world.git.move_branch import Checkout, UnfinishedMove
from corral.world.git.repository import Repository

DIRTY = "commit it, `git stash` it or move it away; then merge again"


async def current_branch(repository: Repository) -> str:
    """Return the branch that is checked out in the folder of a repository."""
    if repository.folder == repository.git_dir or not (repository.folder / ".git").exists():
        raise BadRequest(f"{repository.folder} has no checkout", hint="without one: --strategy branch or patch")
    ref = await repository.text("symbolic-ref", "--quiet", "HEAD", fine=(0, 1))
    if not ref.startswith("refs/heads/"):
        raise BadRequest(f"{repository.folder} is on no branch", hint="git switch BRANCH; or: --strategy patch")
    return ref.removeprefix("refs/heads/")


class UncommittedChanges:
    """Changes in the checkout of a repository; the caller holds the merge lock."""

    def __init__(self, store: Store, repository: Repository) -> None:
        self.store, self.repository = store, repository

    async def places(self, ref: str, before: str, after: str) -> tuple[BranchCheckout, ...]:
        """Return the checkout, and what of it would be overwritten."""
        checkout = await self._checkout(ref)
        env = await merge_commits.neutral_environment(self.repository)
        changes = await checkout_state.file_changes(checkout, before, after)
        dirty = await move_branch.dirty_files_now(checkout, env)
        blocked = await self._blocking_paths(checkout, before, after, changes, dirty)
        return (BranchCheckout(folder=str(checkout.folder), trouble=_trouble(blocked) if blocked else ""),)

    async def apply(self, record: MergeRecord) -> MergeRecord:
        """Write the files of `after` that differ from `before`, and commit nothing; all or nothing."""
        before, after = record.before or "", record.after or ""
        env = await merge_commits.neutral_environment(self.repository)
        checkout = await self._checkout(record.ref)
        await move_branch.wait_until_quiet(checkout)
        with move_branch.hold_index(checkout):
            changes = await checkout_state.file_changes(checkout, before, after)
            dirty = await move_branch.dirty_files(checkout, env)
            if blocked := await self._blocking_paths(checkout, before, after, changes, dirty):
                raise BadRequest(f"{checkout.folder}: {_trouble(blocked)}; nothing was changed", hint=DIRTY)
            await self.repository.git("update-ref", _pin(record), after)  # no branch keeps this commit
            record = self.store.merges.add(structs.replace(record, state="begun", checkouts=(str(checkout.folder),)))
            try:
                new = {path: entry for path, (_, entry) in changes.items()}
                await checkout_state.write_files(checkout, after, new, env)
            except CorralError as error:
                await self._back_out(checkout, before, changes, env, error)
                self.store.merges.drop(record)
                raise BadRequest(
                    f"nothing was changed: {error}", hint=error.hint or "see `git status` there"
                ) from error
        record = structs.replace(record, state="merged")
        self.store.merges.save(record)
        return record

    async def _back_out(
        self, checkout: Checkout, before: str, changes: Mapping[str, Change], env: Mapping[str, str], error: CorralError
    ) -> None:
        try:
            await checkout_state.put_back(checkout, before, changes, env)
        except CorralError as worse:
            hint = "make room; the next merge or undo here ends it"
            raise UnfinishedMove(f"{error}; and back: {worse}", hint=hint) from error

    async def take_back(self, record: MergeRecord) -> MergeRecord:
        """Write the files as they were; refuse where they were changed or committed since."""
        before, after = record.before or "", record.after or ""
        env = await merge_commits.neutral_environment(self.repository)
        checkout = await _checkout_of(self.repository, record)
        await move_branch.wait_until_quiet(checkout)
        with move_branch.hold_index(checkout):
            changes = await checkout_state.file_changes(checkout, before, after)
            if committed := await self._committed_paths(checkout, before, changes):
                words = f"{_names(committed)}: committed since; undoing would lose that"
                raise BadRequest(words, hint="`git revert` that commit, or reset it first")
            if changed := await checkout_state.differing_files(checkout, after, changes, env):
                raise BadRequest(
                    f"{_names(changed)}: changed since; undoing would lose that",
                    hint="save it elsewhere; `git checkout` or `git clean` takes the files back too",
                )
            record = structs.replace(record, state="undoing")
            self.store.merges.save(record)
            old = {path: entry for path, (entry, _) in changes.items()}
            await checkout_state.write_files(checkout, before, old, env)
            await checkout_state.unstage(checkout, changes, env)
            move_branch.adopt(checkout)
        return await self._finish_undo(record)

    async def recover(self, record: MergeRecord, say: Callable[[str], object]) -> None:
        """Take back what was cut off in the middle: putting changes there, or taking them back."""
        before, after = record.before or "", record.after or ""
        if any((Path(name) / ".git").exists() for name in record.checkouts):
            env = await merge_commits.neutral_environment(self.repository)
            checkout = await _checkout_of(self.repository, record)
            with move_branch.hold_index(checkout):
                changes = await checkout_state.file_changes(checkout, before, after)
                await checkout_state.put_back(checkout, before, changes, env)
                await checkout_state.unstage(checkout, changes, env)
                move_branch.adopt(checkout)
        if record.state == "undoing":
            await self._finish_undo(record)
            say(f"ended what was cut off: the undoing of {record.run}")
            return
        await self.repository.git("update-ref", "-d", _pin(record))
        self.store.merges.drop(record)

    async def _finish_undo(self, record: MergeRecord) -> MergeRecord:
        record = structs.replace(record, state="undone", undone=time.time())
        self.store.merges.save(record)
        await self.repository.git("update-ref", "-d", _pin(record))
        return record

    async def _blocking_paths(
        self, checkout: Checkout, before: str, after: str, changes: Mapping[str, Change], dirty: Sequence[str]
    ) -> list[str]:
        """Return what is not committed and would be overwritten."""
        unknown = await move_branch.in_the_way(checkout, before, after)
        return sorted({*in_both(dirty, list(changes)).intersection(dirty), *unknown})

    async def _committed_paths(self, checkout: Checkout, before: str, changes: Mapping[str, Change]) -> list[str]:
        moved = await checkout_state.file_changes(checkout, before, "HEAD")
        return sorted(path for path in changes if path in moved)

    async def _checkout(self, ref: str) -> Checkout:
        found = await move_branch.checkouts(self.repository, ref)
        own = [each for each in found if each.folder.resolve() == self.repository.folder.resolve()]
        if not found:
            branch = ref.removeprefix("refs/heads/")
            raise BadRequest(f"{branch} is checked out nowhere", hint=f"git switch {branch}; or: --strategy auto")
        return (own or found)[0]


async def reverted_words(repository: Repository, record: MergeRecord) -> str:
    """Say that the checkout has nothing of it any more; empty where it has some."""
    with contextlib.suppress(BadRequest):
        checkout = await _checkout_of(repository, record)
        before, after = record.before or "", record.after or ""
        changes = await checkout_state.file_changes(checkout, before, after)
        env = await merge_commits.neutral_environment(repository)
        if not await checkout_state.differing_files(checkout, before, changes, env):
            return f"{checkout.folder} has nothing of it any more: it was taken back there by hand"
    return ""


async def _checkout_of(repository: Repository, record: MergeRecord) -> Checkout:
    folder = next((Path(name) for name in record.checkouts if (Path(name) / ".git").exists()), None)
    if folder is None:
        raise BadRequest(f"the checkout {', '.join(record.checkouts)} is gone", hint="there is nothing to undo")
    return await move_branch.checkout_at(repository, folder)


def _pin(record: MergeRecord) -> str:
    return f"refs/corral/applied/{record.run}-{(record.after or '')[:12]}"


def _trouble(files: Sequence[str]) -> str:
    return f"not committed, and would be overwritten: {_names(files)}"


def _names(files: Sequence[str]) -> str:
    more = len(files) - 4
    return ", ".join(files[:4]) + (f" and {more} more" if more > 0 else "")
