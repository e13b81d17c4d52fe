"""Move a branch and the files of its checkouts, forward or back: stored first, so that a crash leaves nothing half."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from msgspec import structs

from corral.engine.context import Say
from corral.engine.merge import overlap
from corral.engine.merge.open_conflicts import OpenConflicts
from corral.engine.merge.uncommitted import UncommittedChanges
from corral.model.errors import BadRequest, CorralError
from corral.model.merge import BranchCheckout, MergeRecord
from corral.store.interface import Store
from corral.world.git import incoming_objects, merge_commits, move_branch
from corral.world.git.move_branch import Checkout, UnfinishedMove
from corral.world.git.repository import Repository

MERGE_SECONDS = 4 * 3600.0  #: longest time that one merge is waited for: its checks run while it holds the lock
CLEAN = "commit it, `git stash` it or move it away; changes of tracked files: --autostash"


class BranchMover:
    """Merges in one repository; the caller has the merge lock."""

    def __init__(self, store: Store, repository: Repository, say: Say) -> None:
        self.store, self.repository, self.say = store, repository, say

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Hold the merge lock of the repository: one merge at a time, over all processes and machines."""
        name = f"merge-{_name(self.repository.git_dir)}"
        async with self.store.lock(name, say=self.say, holder_seconds=MERGE_SECONDS) as held:
            self.repository.keeps = (held,)
            try:
                with incoming_objects.stage(self.repository):
                    yield
            finally:
                self.repository.keeps = ()

    @contextlib.asynccontextmanager
    async def _hold_checkouts(self, ref: str) -> AsyncGenerator[list[Checkout]]:
        """Keep other programs from the index of each checkout of a branch, once they are quiet."""
        found = await move_branch.checkouts(self.repository, ref)
        with contextlib.ExitStack() as stack:
            for checkout in found:
                await move_branch.wait_until_quiet(checkout)
                stack.enter_context(move_branch.hold_index(checkout))
            yield found

    # --- forward

    async def apply(self, record: MergeRecord, *, autostash: bool = False) -> MergeRecord:
        """Move the ref from `before` to `after`, and the files of clean checkouts with it; all or nothing."""
        env = await merge_commits.neutral_environment(self.repository)
        async with self._hold_checkouts(record.ref) as found:
            stashes = await self._prepare_checkouts(found, record, autostash=autostash)
            folders = tuple(str(checkout.folder) for checkout in found)
            record = structs.replace(record, state="begun", checkouts=folders, stashes=stashes)
            record = self.store.merges.add(record)  # from here on the next process can end it
            try:
                for checkout in found:
                    if str(checkout.folder) in dict(stashes) and record.before:
                        await move_branch.clear(checkout, record.before, env)
                await self._move(found, record.ref, record.before, record.after, f"corral merge {record.run}")
            except UnfinishedMove:
                raise  # it stays begun
            except CorralError:
                await self._bring_back(found, record, record.before)
                self.store.merges.drop(record)
                raise
            await self._bring_back(found, record, record.after)
            for checkout in found:
                move_branch.adopt(checkout)
        return self._store_result(structs.replace(record, state="merged"))

    async def look(self, record: MergeRecord, *, autostash: bool) -> None:
        """Refuse early what `apply` would refuse."""
        for place in await self.places(record.ref, record.before, record.after):
            if place.trouble and not (autostash and place.trouble.startswith("not clean")):
                raise BadRequest(f"{place.folder}: {place.trouble}; nothing was moved", hint=CLEAN)

    async def _prepare_checkouts(
        self, found: Sequence[Checkout], record: MergeRecord, *, autostash: bool
    ) -> tuple[tuple[str, str], ...]:
        """Make sure that the files can follow; return what was put aside for that."""
        env = await merge_commits.neutral_environment(self.repository)
        stashes: list[tuple[str, str]] = []
        for checkout in found:
            changed = await move_branch.dirty_files(checkout, env)
            if changed and not autostash:
                raise _not_clean(checkout, changed)
            if record.after and (files := await move_branch.in_the_way(checkout, record.before, record.after)):
                raise _overwritten(checkout, files)
            if changed:
                ref = f"refs/corral/stashes/{record.run}-{int(time.time() * 1000)}"
                if stash := await move_branch.put_aside(checkout, ref, env):
                    stashes.append((str(checkout.folder), stash))
        return tuple(stashes)

    async def _move(self, found: Sequence[Checkout], ref: str, before: str | None, after: str | None, why: str) -> None:
        """Move the ref, then the files; if one checkout refuses, everything goes back to where it was."""
        env = await merge_commits.neutral_environment(self.repository)
        place = found[0].repository if found else self.repository
        await move_branch.move_ref(place, ref, before, after, why)
        moved: list[Checkout] = []
        try:
            for checkout in found:
                await move_branch.follow(checkout, before, after, env)
                moved.append(checkout)
        except CorralError as error:
            try:
                await move_branch.back_out(found[len(moved)], before, after, env)
                for checkout in moved:
                    await move_branch.follow(checkout, after, before, env)
                await move_branch.move_ref(place, ref, after, before, f"{why}: files could not follow")
            except CorralError as worse:
                raise UnfinishedMove(
                    f"{error}; and back: {worse}", hint="make room; the next merge here ends it"
                ) from error
            raise BadRequest(f"nothing was moved: {error}", hint=error.hint or "see `git status` there") from error

    async def _bring_back(self, found: Sequence[Checkout], record: MergeRecord, commit: str | None) -> None:
        env = await merge_commits.neutral_environment(self.repository)
        aside = dict(record.stashes)
        for checkout in found:
            stash = aside.get(str(checkout.folder))
            if stash and commit and not await move_branch.bring_back(checkout, stash, commit, env):
                self.say(f"{checkout.folder}: your changes do not fit any more; they are in `git stash list`")

    # --- back

    async def take_back(self, record: MergeRecord) -> MergeRecord:
        """Put the ref and the files back to where they were before a merge; refuse if newer work would be lost."""
        if record.strategy == "apply":
            return await UncommittedChanges(self.store, self.repository).take_back(record)
        await self._refuse_back(record)
        env = await merge_commits.neutral_environment(self.repository)
        async with self._hold_checkouts(record.ref) as found:
            for checkout in found:
                if changed := await move_branch.dirty_files(checkout, env):
                    raise _not_clean(checkout, changed)
                if record.before and record.after:
                    files = await move_branch.in_the_way(checkout, record.after, record.before)
                    if files:
                        raise _overwritten(checkout, files)
            folders = tuple(str(checkout.folder) for checkout in found)
            record = structs.replace(record, state="undoing", checkouts=folders, stashes=())
            self.store.merges.save(record)
            try:
                await self._move(found, record.ref, record.after, record.before, f"corral undo {record.run}")
            except UnfinishedMove:
                raise
            except CorralError:
                self.store.merges.save(structs.replace(record, state="merged"))
                raise
            for checkout in found:
                move_branch.adopt(checkout)
        return self._store_result(structs.replace(record, state="undone", undone=time.time()))

    def _store_result(self, record: MergeRecord) -> MergeRecord:
        """Store what came of a merge; a conflict of the run with what the branch was until now is none any more."""
        self.store.merges.save(record, *(self._empty_merges(record) if record.state == "undone" else ()))
        words, by = ("taken back", "corral undo") if record.state == "undone" else ("settled", "corral merge")
        OpenConflicts(self.store, record.run).over(record.ref, words, by)
        return record

    def _empty_merges(self, record: MergeRecord) -> list[MergeRecord]:
        """Return the merges that moved nothing, for the branch had the same work by the one that was taken back."""
        return [
            structs.replace(each, state="undone", undone=record.undone)
            for each in self.store.merges.of_repository(record.git_dir)
            if (each.ref, each.state) == (record.ref, "merged") and each.before == each.after == record.after
        ]

    async def _refuse_back(self, record: MergeRecord) -> None:
        """Refuse to take back what is not there, or has newer work on top of it."""
        if record.before != record.after and (words := await overlap.reverted_words(self.repository, record)):
            raise BadRequest(f"{words}; there is nothing to undo", hint=f"to have it again: corral merge {record.run}")
        now = await self.repository.commit_of(record.ref)
        if now != record.after:
            raise BadRequest(await self._newer(record, now), hint="`git revert` keeps what came later")
        if record.before == record.after:
            raise BadRequest(
                f"the merge of {record.run} moved nothing: there is nothing to undo", hint=f"corral show {record.run}"
            )

    async def _newer(self, record: MergeRecord, now: str | None) -> str:
        if now and record.after and await merge_commits.is_ancestor(self.repository, record.after, now):
            count = await merge_commits.behind(self.repository, record.after, now)
            commits = "1 newer commit" if count == 1 else f"{count} newer commits"
            return f"{record.into} has {commits} since the merge of {record.run}: undoing it would lose them"
        return f"{record.into} is not where the merge of {record.run} left it"

    # --- after a crash

    async def recover(self) -> None:
        """End what someone began here and did not end: the ref tells whether it goes forward or back."""
        for record in self.store.merges.list_unfinished(str(self.repository.git_dir)):
            if record.strategy == "apply":
                await UncommittedChanges(self.store, self.repository).recover(record, self.say)
                continue
            back = record.state == "undoing"
            source, goal = (record.after, record.before) if back else (record.before, record.after)
            now = await self.repository.commit_of(record.ref)
            moved = now != source
            if now in (source, goal):  # otherwise someone has continued from there: the files are theirs
                await self._end(record, source, now)
            if moved:
                undone = structs.replace(record, state="undone", undone=time.time())
                self._store_result(undone if back else structs.replace(record, state="merged"))
                self.say(f"ended what was cut off: {'the undoing' if back else 'the merge'} of {record.run}")
            elif back:
                self.store.merges.save(structs.replace(record, state="merged"))
            else:
                self.store.merges.drop(record)

    async def _end(self, record: MergeRecord, source: str | None, goal: str | None) -> None:
        env = await merge_commits.neutral_environment(self.repository)
        aside = dict(record.stashes)
        for name in record.checkouts:
            if not (Path(name) / ".git").exists():
                continue
            checkout = await move_branch.checkout_at(self.repository, Path(name))
            with move_branch.hold_index(checkout):
                if source != goal:
                    await move_branch.end_following(checkout, source, goal, env)
                if (stash := aside.get(name)) and goal and not await move_branch.bring_back(checkout, stash, goal, env):
                    self.say(f"{name}: your changes are in `git stash list`")
                move_branch.adopt(checkout)

    # --- looking

    async def places(self, ref: str, before: str | None, after: str | None) -> tuple[BranchCheckout, ...]:
        """Return the checkouts of a branch, and what would keep their files from following."""
        env = await merge_commits.neutral_environment(self.repository)
        found: list[BranchCheckout] = []
        for checkout in await move_branch.checkouts(self.repository, ref):
            changed = await move_branch.dirty_files_now(checkout, env)
            trouble = f"not clean: {_names(changed)}" if changed else ""
            if not trouble and after and (files := await move_branch.in_the_way(checkout, before, after)):
                trouble = f"would be overwritten: {_names(files)}"
            found.append(BranchCheckout(folder=str(checkout.folder), trouble=trouble))
        return tuple(found)


def _name(git_dir: Path) -> str:
    return str(git_dir).strip("/").replace("/", "-")[-180:]


def _names(files: Sequence[str]) -> str:
    more = len(files) - 4
    return ", ".join(files[:4]) + (f" and {more} more" if more > 0 else "")


def _not_clean(checkout: Checkout, changed: Sequence[str]) -> BadRequest:
    return BadRequest(f"{checkout.folder}: not clean: {_names(changed)}; nothing was moved", hint=CLEAN)


def _overwritten(checkout: Checkout, files: Sequence[str]) -> BadRequest:
    return BadRequest(f"{checkout.folder}: would be overwritten: {_names(files)}; nothing was moved", hint=CLEAN)
