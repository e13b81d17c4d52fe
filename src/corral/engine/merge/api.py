"""Land the work of runs, alone or in a queue; look beforehand, and take it back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from corral.engine.context import Context, Driver, LocalRuns, Say
from corral.engine.merge import expired_conflicts
from corral.engine.views import run_document, run_status
from corral.model import Run
from corral.model.errors import Conflicting, CorralError
from corral.model.events import Noted, RunEvent
from corral.model.merge import Conflicts, Hunks, MergeRecord, MergeRequest, Overlap, Preview, QueueRecord
from corral.rules.merge import merge as rules

if TYPE_CHECKING:
    from corral.engine.merge.merger import Merger
    from corral.engine.merge.undo import UndoPreview
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
        return await self._merger(request.run).preview(request)

    async def candidate(self, request: MergeRequest) -> str | None:
        """Return the commit that a merge would land."""
        merger = self._merger(request.run)
        return (await merger.candidate(merger.complete_request(request))).commit

    async def merge(self, request: MergeRequest, say: Say = _ignore_text, sink: Sink = _ignore_text) -> MergeRecord:
        """Land a run's work; a conflict is stored and told, and nothing moves. A patch goes to `sink`."""
        from corral.engine.merge import publish, resolve_by_agent  # noqa: PLC0415

        merger = self._merger(request.run, say)
        over = expired_conflicts.end(self._context.store, merger.run.run, running=bool(request.heads))
        if request.heads and over:
            raise Conflicting(over[-1], hint=f"to try again: corral retry {merger.run.run}")
        picked, request = request.pick, merger.complete_request(request)
        if picked is not None and (words := rules.override_text(merger.run, picked)):
            say(words)
        await self._say_moved(merger.run, request.into, say)
        if request.strategy == "patch":
            return await publish.patch(merger, request, sink)
        if request.strategy == "branch":
            record = await merger.as_branch(request)
        elif request.strategy == "pr":
            record = await publish.pull_request(merger, request)
        else:
            record = await merger.merge(request)
        if record.state == "conflict" and request.resolve_with:
            record = await resolve_by_agent.by_agent(self._driver, merger, request, record)
        if picked is not None:
            await self._take_choice(merger.run, picked, "merge --pick")
        return record

    async def _say_moved(self, run: Run, into: str | None, say: Say) -> None:
        from corral.engine.merge import overlap  # noqa: PLC0415

        count = (await overlap.mark_moved(self._context.store, run)).merge.behind if not into else UNSET
        if isinstance(count, int):
            say(f"{run.merge.into} has moved: {count} commit{'' if count == 1 else 's'} since this run started")

    async def merge_automatically(self, run: str, listen: Listener) -> None:
        """Merge a run that was to land by itself; what stands against it is told, and left to the person."""
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
        """Land several runs in order, tested together; without names go on with what was cut off."""
        from corral.engine.merge.merge_queue import MergeQueue  # noqa: PLC0415

        mergers = [self._merger(name, say) for name in names]
        return await MergeQueue(self._context.store, mergers, lambda run: self._merger(run, say), say).merge(request)

    async def hunks(self, name: str, attempt: str | None = None) -> list[Hunks]:
        """Return what the attempts of a run changed, or one of them, in numbered pieces that a merge can take."""
        from corral.engine.merge import pick_files  # noqa: PLC0415

        merger = self._merger(name)
        return await pick_files.attempt_hunks(merger.repository, merger.run, merger.plan.base, attempt)

    async def conflicts(self, name: str, into: str | None = None, only: str | None = None) -> Conflicts:
        """Return what stands against landing a run, with the texts of all sides; `only` one path of it."""
        from corral.engine.merge import conflicts  # noqa: PLC0415

        merger = self._merger(name)
        return await conflicts.conflicts_of(merger, MergeRequest(run=merger.run.run, into=into), only)

    async def add_git_state(self, run: Run) -> Run:
        """Return a run document with what only git knows: what was taken back with git, and which nodes conflict."""
        from corral.engine.merge import overlap, reverted  # noqa: PLC0415

        store = self._context.store
        found = await overlap.mark_clashes(store, await reverted.without_reverted_merge(store, run))
        return await overlap.mark_moved(store, found)

    def needs_git(self, run: Run) -> bool:
        """Tell whether git has to be asked how a run stands: whether its merge holds, its nodes fit, its base moved."""
        several = run.merge.status == "ready" and len(run.nodes) > 1
        return run.merge.status == "merged" or several or run_status.may_have_moved(self._context.store, run)

    async def undo_preview(self, run: str) -> UndoPreview | None:
        """Return what an undo of a run's last merge would take back."""
        from corral.engine.merge import undo  # noqa: PLC0415

        return await undo.preview_undo(self._context.store, run)

    def target(self, run: str) -> str | None:
        """Return the branch that a run is to be merged into."""
        return self._context.store.run(run).plan.into

    def abort(self, name: str, into: str | None = None) -> Run:
        """Give up a merge that is in conflict: the last, or the one into a branch."""
        merger = self._merger(name)
        expired_conflicts.end(self._context.store, merger.run.run)
        merger.abort(into)
        return run_document.build(self._context.store, merger.run.run)

    async def undo(self, name: str | None, folder: Path, say: Say) -> MergeRecord:
        """Take back a run's last merge, or the last merge in the repository of `folder`: refs and files, exactly."""
        from corral.engine.merge import undo as undoing  # noqa: PLC0415

        return await undoing.undo(self._context.store, self._context.store.find(name) if name else None, folder, say)

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
