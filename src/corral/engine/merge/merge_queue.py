"""Merge several runs in order: laid on top of each other, tested together, bisected where that is red."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.engine.context import Say
from corral.engine.merge.computation import ComputedMerge
from corral.engine.merge.merger import Merger
from corral.model.errors import BadRequest, CorralError
from corral.model.merge import MergeRequest, QueueRecord
from corral.store.interface import Store
from corral.world.git import discovery
from corral.world.git.move_branch import BranchMoved
from corral.world.git.repository import Repository

MOST_MOVES = 5


class QueueStep(Struct, frozen=True):
    """One run on top of those before it."""

    merger: Merger
    worked: ComputedMerge

    @property
    def run(self) -> str:
        return self.merger.run.run

    @property
    def tip(self) -> str:
        return self.worked.after or ""


class MergeQueue:
    """One queue of one repository; its caller has the repository's merge lock."""

    def __init__(self, store: Store, mergers: Sequence[Merger], find: Callable[[str], Merger], say: Say) -> None:
        self.store, self.say, self._find = store, say, find
        self._mergers = {merger.run.run: merger for merger in mergers}
        self._staged: Repository | None = None  #: the one that keeps new objects from `git gc`; the others join it

    async def merge(self, request: MergeRequest) -> QueueRecord:
        """Merge what fits together and passes; leave out the rest, with the reason."""
        record = await self._record(request)
        lander = self._merger(record.runs[0]).branch_mover
        try:
            async with lander.alone():
                self._staged = lander.repository
                await lander.recover()
                record = await self._rounds(record, request)
        finally:
            for merger in self._mergers.values():
                merger.repository.share_apart(lander.repository)
        record = structs.replace(record, over=True)
        self.store.merges.save_queue(record)
        return record

    async def _rounds(self, record: QueueRecord, request: MergeRequest) -> QueueRecord:
        moves = 0
        while record.runs:
            try:
                record = await self._round(record, request)
            except BranchMoved as moved:
                moves += 1
                if moves > MOST_MOVES:
                    raise
                self.say(f"{moved}: once more")
        return record

    async def _record(self, request: MergeRequest) -> QueueRecord:
        if not self._mergers:
            found = await discovery.discover(Path.cwd())
            waiting = self.store.merges.open_queues(str(found.repository.git_dir)) if found else []
            if not waiting:
                raise BadRequest("no queue was cut off here", hint="name runs: corral merge --queue RUN RUN")
            return waiting[-1]
        first = next(iter(self._mergers.values()))
        others = {str(merger.repository.git_dir) for merger in self._mergers.values()}
        if len(others) > 1:
            raise BadRequest("these runs are of several repositories", hint="a queue for each")
        into = request.into or first.plan.into
        if into is None:
            raise BadRequest(f"run {first.run.run} started from no branch", hint="name one: --into main")
        for merger in self._mergers.values():  # refused before anything is done
            await merger.candidate(structs.replace(request, run=merger.run.run))
        record = QueueRecord(
            git_dir=str(first.repository.git_dir), into=into, strategy=request.strategy, runs=tuple(self._mergers)
        )
        return self.store.merges.add_queue(record)

    def _merger(self, run: str) -> Merger:
        found = self._mergers.get(run) or self._mergers.setdefault(run, self._find(run))
        if self._staged and found.repository is not self._staged:
            found.repository.share_apart(self._staged)
        return found

    # --- one round

    async def _round(self, record: QueueRecord, request: MergeRequest) -> QueueRecord:
        """Lay what waits on top of the branch; merge it if it passes, else leave the one out that breaks it."""
        asked = structs.replace(request, strategy=record.strategy, into=record.into)
        steps, record = await self._lay(record, asked)
        if not steps:
            return record
        if asked.checks:
            record, passed = await self._passes(record, steps, len(steps))
            if not passed:
                return await self._leave_out(record, steps)
        return await self._merge_steps(record, steps, asked)

    async def _lay(self, record: QueueRecord, request: MergeRequest) -> tuple[list[QueueStep], QueueRecord]:
        steps: list[QueueStep] = []
        merger = self._merger(record.runs[0])
        ref, tip = await merger.target(request)
        for run in record.runs:
            merger = self._merger(run)
            candidate = await merger.candidate(structs.replace(request, run=run))
            merged = await merger.merge_with(request, tip, candidate.commit or "") if candidate.commit else None
            if merged is None or merged.conflicts:
                conflicts = merged.conflicts if merged else candidate.conflicts
                on = ", ".join(step.run for step in steps) or record.into
                files = ", ".join(conflict.path for conflict in conflicts)
                record = self._lose(record, run, f"it does not go together with {on}: conflicts in {files}")
                continue
            worked = ComputedMerge(candidate=candidate, ref=ref, before=tip, merged=merged)
            try:
                await merger.refuse_another(request, worked)
                tip = await merger.make_commit(request, worked)
            except CorralError as error:
                record = self._lose(record, run, str(error))
                continue
            steps.append(QueueStep(merger, structs.replace(worked, after=tip)))
        return steps, record

    async def _passes(self, record: QueueRecord, steps: Sequence[QueueStep], count: int) -> tuple[QueueRecord, bool]:
        """Test the first `count` steps together; what is known of that tree already is not run again."""
        last = steps[count - 1] if count else None
        checks = dict.fromkeys(check for step in steps[: max(count, 1)] for check in step.worked.candidate.checks)
        tree = last.worked.merged.tree if last else await self._base_tree(steps[0])
        key = "\n".join([tree, *checks])
        known = {each[0]: each[1] for each in record.proven}
        if not checks or (last and count == 1 and tree in last.worked.candidate.proven):
            return record, True
        if key not in known:
            names = ", ".join(step.run for step in steps[:count]) or record.into
            self.say(f"testing {names}")
            merger = (last or steps[0]).merger
            commit = last.tip if last else steps[0].worked.before or ""
            results = await merger.check(commit, tuple(checks), (last or steps[0]).worked.candidate.agent)
            failed = next((result for result in results if not result.passed), None)
            words = f"`{failed.command}` fails: {' '.join(failed.output.split())[-300:]}" if failed else ""
            record = structs.replace(record, proven=(*record.proven, (key, failed is None, words)))
            self.store.merges.save_queue(record)
            known[key] = failed is None
        return record, known[key]

    async def _base_tree(self, step: QueueStep) -> str:
        return await step.merger.repository.tree_of(step.worked.before or "")

    async def _leave_out(self, record: QueueRecord, steps: Sequence[QueueStep]) -> QueueRecord:
        """Find by halves the first step with which the tests fail, and take that one out."""
        good, bad = 0, len(steps)
        while bad - good > 1:
            middle = (good + bad) // 2
            record, passed = await self._passes(record, steps, middle)
            good, bad = (middle, bad) if passed else (good, middle)
        culprit = steps[bad - 1]
        words = record.proven[-1][2] if record.proven else ""
        words = next(
            (each[2] for each in reversed(record.proven) if each[0].startswith(culprit.worked.merged.tree)), words
        )
        where = f"on top of {', '.join(step.run for step in steps[: bad - 1])}" if bad > 1 else f"on {record.into}"
        if bad == 1:
            record, passed = await self._passes(record, steps, 0)
            where = where if passed else f"{where}, which fails without it too"
        return self._lose(record, culprit.run, f"{words} ({where})")

    async def _merge_steps(self, record: QueueRecord, steps: Sequence[QueueStep], request: MergeRequest) -> QueueRecord:
        """Move the branch step by step, so that each run can be undone; where it is, is stored after each."""
        for step in steps:
            merger = step.merger
            step_record = merger.new_record(request, step.worked)
            if step.worked.after != step.worked.before:
                await merger.branch_mover.apply(step_record, autostash=request.autostash)
            else:
                self.store.merges.add(structs.replace(step_record, state="merged"))
            merger.note(f"merged into {record.into} through a queue: {step.tip[:12]}")
            runs = tuple(run for run in record.runs if run != step.run)
            record = structs.replace(record, runs=runs, merged=(*record.merged, step.run))
            self.store.merges.save_queue(record)
        return record

    def _lose(self, record: QueueRecord, run: str, why: str) -> QueueRecord:
        """Leave a run out, and store the reason: the agent that continues it reads that first."""
        self._merger(run).note(f"left out of the queue into {record.into}: {why}")
        self.say(f"left out {run}: {why}")
        record = structs.replace(
            record, runs=tuple(each for each in record.runs if each != run), lost=(*record.lost, (run, why))
        )
        self.store.merges.save_queue(record)
        return record
