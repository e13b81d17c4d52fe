"""Merges of runs: looked at beforehand, made alone or in a queue, published as a patch or pull request, and undone."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, structs

from corral import amounts
from corral.attempt.repositories import other_machines, repository_of, require
from corral.engine.context import Context, Driver, LocalRuns, Say
from corral.engine.merge import open_conflicts
from corral.engine.merge.apply import BranchMover
from corral.engine.merge.merger import Merger
from corral.engine.merge.overlap import reverted_words
from corral.engine.merge.uncommitted import current_branch
from corral.engine.views import run_document, run_status
from corral.model import Run
from corral.model.errors import BadRequest, Conflicting, CorralError
from corral.model.events import Noted, RunEvent
from corral.model.merge import (
    BranchCheckout,
    Conflicts,
    Hunks,
    MergeRecord,
    MergeRequest,
    Overlap,
    Preview,
    QueueRecord,
)
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.world.git import discovery, merge_commits

if TYPE_CHECKING:
    from corral.model.events import Listener

Sink = Callable[[bytes], object]
TakeChoice = Callable[[Run, str, str], Awaitable[bool]]  #: answers a race that waits for a user, with an attempt


def _ignore_text(_: object) -> None:
    """Say nothing."""


class Merges:
    """Merges of the runs of one store."""

    def __init__(self, context: Context, driver: Driver, local_runs: LocalRuns, take_choice: TakeChoice) -> None:
        self._context, self._driver, self._local_runs, self._take_choice = context, driver, local_runs, take_choice

    async def preview(self, request: MergeRequest) -> Preview:
        """Return what a merge would do; nothing is changed."""
        merger = self._merger(request.run)
        return await merger.preview(await _with_branch(merger, request))

    async def candidate(self, request: MergeRequest) -> str | None:
        """Return the commit that a merge would merge."""
        merger = self._merger(request.run)
        return (await merger.candidate(merger.complete_request(request))).commit

    async def merge(self, request: MergeRequest, say: Say = _ignore_text, sink: Sink = _ignore_text) -> MergeRecord:
        """Merge a run's work; a conflict is stored and reported, and nothing moves. A patch goes to `sink`."""
        from corral.engine.merge.conflicts import resolve_by_agent  # noqa: PLC0415

        merger = self._merger(request.run, say)
        over = open_conflicts.end_expired(self._context.store, merger.run.run, running=bool(request.heads))
        if request.heads and over:
            raise Conflicting(over[-1], hint=f"to try again: corral retry {merger.run.run}")
        picked, request = request.pick, merger.complete_request(await _with_branch(merger, request))
        if picked is not None and (words := rules.override_text(merger.run, picked)):
            say(words)
        await self._say_moved(merger.run, request.into, say)
        if request.strategy == "patch":
            return await publish_patch(merger, request, sink)
        if request.strategy == "branch":
            record = await merger.as_branch(request)
        elif request.strategy == "apply":
            record = await merger.into_checkout(request)
        elif request.strategy == "pr":
            record = await self._publish(merger, request)
        else:
            record = await merger.merge(request)
        if record.state == "conflict" and request.resolve_with:
            record = await resolve_by_agent(self._driver, merger, request, record)
        if picked is not None:
            await self._take_choice(merger.run, picked, "merge --pick")
        if record.state == "merged":
            self._close_question(merger.run, record)
        return record

    def _close_question(self, run: Run, record: MergeRecord) -> None:
        """Answer the question whether a run is merged, where it still waits: it is."""
        inbox, now = self._context.store.inbox, time.time()
        entry = inbox.of_key(rules.result_question(run, now).key)
        if entry is not None and entry.is_open and inbox.answer(entry.id, "merge", "corral merge", now):
            inbox.note_outcome(entry.id, f"merged into {record.into}")

    async def _publish(self, merger: Merger, request: MergeRequest) -> MergeRecord:
        from corral.engine.merge.pull_requests import publish_pull_request  # noqa: PLC0415

        return await publish_pull_request(merger, request, self._context.home)

    async def _say_moved(self, run: Run, into: str | None, say: Say) -> None:
        from corral.engine.merge import overlap  # noqa: PLC0415

        count = (await overlap.mark_moved(self._context.store, run)).merge.behind if not into else UNSET
        if isinstance(count, int):
            say(f"{run.merge.into} has moved: {amounts.count(count, 'commit')} since this run started")

    async def merge_automatically(self, run: str, listen: Listener) -> None:
        """Merge a run that asked for it; what prevents it is reported, and left to the user."""
        store = self._context.store
        record = store.run(run)
        if record.plan.merge != "auto" or record.status != "done" or self._local_runs.stopping:
            return
        if run_document.build(store, run).merge.status == "ready":
            say = partial(_tell, listen, run)
            try:
                await self.merge(MergeRequest(run=run), say)
            except CorralError as error:
                say(f"not merged: {error}")
                store.note(run, Noted(f"not merged: {error}"), at=time.time())
                store.flush()

    async def queue(self, names: Sequence[str], request: MergeRequest, say: Say) -> QueueRecord:
        """Merge several runs in order, tested together; without names continue what was cut off."""
        from corral.engine.merge.merge_queue import MergeQueue  # noqa: PLC0415

        mergers = [self._merger(name, say) for name in names]
        return await MergeQueue(self._context.store, mergers, lambda run: self._merger(run, say), say).merge(request)

    async def hunks(self, name: str, attempt: str | None = None) -> list[Hunks]:
        """Return what the attempts of a run changed, or one of them, in numbered pieces that a merge can take."""
        from corral.engine.merge import pick_files  # noqa: PLC0415

        merger = self._merger(name)
        return await pick_files.attempt_hunks(merger.repository, merger.run, merger.plan.base, attempt)

    async def conflicts(self, name: str, into: str | None = None, only: str | None = None) -> Conflicts:
        """Return what prevents merging a run, with the texts of all sides; `only` one path of it."""
        from corral.engine.merge import conflicts  # noqa: PLC0415

        merger = self._merger(name)
        return await conflicts.conflicts_of(merger, MergeRequest(run=merger.run.run, into=into), only)

    async def add_git_state(self, run: Run) -> Run:
        """Return a run document with what only git knows: what was taken back with git, and which nodes conflict."""
        from corral.engine.merge import overlap  # noqa: PLC0415

        store = self._context.store
        found = await overlap.mark_clashes(store, await overlap.without_reverted_merge(store, run))
        return await overlap.mark_moved(store, found)

    def needs_git(self, run: Run) -> bool:
        """Tell whether git has to be asked about a run: whether its merge holds, its nodes fit, its base moved."""
        several = run.merge.status == "ready" and len(run.nodes) > 1
        return run.merge.status == "merged" or several or run_status.may_have_moved(self._context.store, run)

    async def undo_preview(self, run: str) -> UndoPreview | None:
        """Return what an undo of a run's last merge would take back."""
        return await preview_undo(self._context.store, run)

    def target(self, run: str) -> str | None:
        """Return the branch that a run is to be merged into."""
        return self._context.store.run(run).plan.into

    def abort(self, name: str, into: str | None = None) -> Run:
        """Give up a merge that is in conflict: the last, or the one into a branch."""
        merger = self._merger(name)
        open_conflicts.end_expired(self._context.store, merger.run.run)
        merger.abort(into)
        return run_document.build(self._context.store, merger.run.run)

    async def undo(self, name: str | None, folder: Path, say: Say) -> MergeRecord:
        """Take back a run's last merge, or the last merge in the repository of `folder`: refs and files, exactly."""
        return await undo_merges(self._context.store, self._context.store.find(name) if name else None, folder, say)

    async def overlap(self, folder: Path) -> Overlap:
        """Return the unmerged work of a repository, and what of it will clash."""
        from corral.engine.merge import overlap  # noqa: PLC0415

        return await overlap.overlap(self._context.store, folder)

    def _merger(self, name: str, say: Say = _ignore_text) -> Merger:
        from corral.attempt.repositories import repository_of  # noqa: PLC0415
        from corral.engine.merge.merger import Merger  # noqa: PLC0415

        store = self._context.store
        run = run_document.build(store, store.find(name))
        return Merger(store, run, repository_of(store.run(run.run).plan, self._context.home), say)


def _tell(listen: Listener, run: str, words: str) -> None:
    listen(RunEvent(run, None, None, Noted(words)))


async def _with_branch(merger: Merger, request: MergeRequest) -> MergeRequest:
    """Return a request with its branch: what goes into a checkout goes where that is."""
    if request.strategy != "apply" or request.into:
        return request
    return structs.replace(request, into=await current_branch(merger.repository))


async def publish_patch(merger: Merger, request: MergeRequest, sink: Callable[[bytes], object]) -> MergeRecord:
    """Hand over what a merge would change, for `git apply`; nothing is moved or stored."""
    preview = await merger.preview(request)
    if preview.conflicts:
        names = ", ".join(conflict.path for conflict in preview.conflicts)
        raise BadRequest(
            f"there is no patch that fits {preview.into}: conflicts in {names}",
            hint=f"against its own base: corral diff {preview.run}",
        )
    await merger.repository.patch(preview.before, preview.tree, sink)
    return MergeRecord(
        run=preview.run,
        git_dir="",
        state="undone",
        ref=f"refs/heads/{preview.into}",
        before=preview.before,
        after=None,
        strategy="patch",
        at=0.0,
    )


async def undo_merges(store: Store, run: str | None, folder: Path, say: Say) -> MergeRecord:
    """Take back the last merge of a run, or the last of the repository that `folder` is in."""
    record = _last_of_run(store, run) if run else await _last_here(store, folder)
    repository = repository_of(store.run(record.run).plan, store.folder)
    await require(repository, record.run, [], elsewhere=other_machines(store, str(repository.git_dir)))
    lander = BranchMover(store, repository, say)
    async with lander.alone():
        await lander.recover()
        now = next((each for each in store.merges.of_run(record.run) if each.id == record.id), None)
        if now is None or now.state != "merged":
            raise BadRequest(
                f"the merge of {record.run} is not there any more to be undone",
                hint="git log shows what the branch has; revert it with git",
            )
        undone = await lander.take_back(now)
    store.note(record.run, Noted(f"the merge into {record.into} was undone"), at=time.time())
    store.flush()
    return undone


def _last_of_run(store: Store, run: str) -> MergeRecord:
    records = store.merges.of_run(run)
    merged = [record for record in records if record.state in ("merged", "begun", "undoing")]
    if not merged:
        undone = any(record.state == "undone" for record in records)
        raise BadRequest(
            f"the merge of run {run} is undone already" if undone else f"run {run} is not merged",
            hint=f"corral show {run}",
        )
    moved = [record for record in merged if record.before != record.after]
    return (moved or merged)[-1]


async def _last_here(store: Store, folder: Path) -> MergeRecord:
    found = await discovery.discover(folder)
    records = store.merges.of_repository(str(found.repository.git_dir)) if found else store.merges.everything()
    undoable = [
        record
        for record in records
        if record.state in ("merged", "begun", "undoing") and record.before != record.after  # the others moved nothing
    ]
    if found is None:  # the last merge of another repository is not the last one here
        last = f"the last merge is that of {undoable[-1].run}: corral undo {undoable[-1].run}" if undoable else ""
        raise BadRequest(f"{folder} is in no git repository", hint=last or "name a run: corral undo RUN")
    if not undoable:
        raise BadRequest(
            f"nothing was merged in {found.repository.folder} that could be undone", hint="name a run: corral undo RUN"
        )
    return undoable[-1]


class UndoPreview(Struct, frozen=True, kw_only=True):
    """A merge as it could be taken back."""

    record: MergeRecord
    files: tuple[str, ...] = ()
    places: tuple[BranchCheckout, ...] = ()
    trouble: str = ""  #: why it cannot be, in words


async def preview_undo(store: Store, run: str) -> UndoPreview | None:
    """Return what undoing the last merge of a run would do; None if nothing of it is merged."""
    merges = [each for each in store.merges.of_run(run) if each.state == "merged"]
    moved = [each for each in merges if each.before != each.after]
    if not merges:
        return None
    record = (moved or merges)[-1]
    if not moved:
        return UndoPreview(record=record, trouble="it moved nothing: the branch had this already")
    repository = repository_of(store.run(run).plan, store.folder)
    if words := await reverted_words(repository, record):
        return UndoPreview(record=record, trouble=words)
    if record.strategy == "apply":
        return UndoPreview(
            record=record, files=tuple(await repository.names_changed(record.before or "", record.after or ""))
        )
    now = await repository.commit_of(record.ref)
    if now != record.after:
        newer = await merge_commits.behind(repository, record.after or "", now) if now and record.after else 0
        words = f"{record.into} has {newer} newer commit{'s' if newer != 1 else ''}, which would be lost"
        return UndoPreview(record=record, trouble=words if newer else f"{record.into} is not where the merge left it")
    places = await BranchMover(store, repository, _ignore_words).places(record.ref, record.after, record.before)
    files = await repository.names_changed(record.before, record.after or "") if record.before else ()
    trouble = next((f"{each.folder}: {each.trouble}" for each in places if each.trouble), "")
    return UndoPreview(record=record, files=files, places=places, trouble=trouble)


def _ignore_words(_: str) -> None:
    """Say nothing."""
