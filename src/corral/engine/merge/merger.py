"""Merge a run: work out what would come of it, prove that, merge it; or say exactly what prevents it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import structs

from corral.engine.context import Say
from corral.engine.merge import overlap
from corral.engine.merge.apply import BranchMover
from corral.engine.merge.computation import Candidate, ComputedMerge, MergeComputation
from corral.engine.merge.uncommitted import DIRTY, UncommittedChanges
from corral.machines import checks as checking
from corral.machines import scope
from corral.machines.host import Host
from corral.machines.scope import MachinePaths
from corral.model import CheckResult, Run
from corral.model.errors import BadRequest, ChecksFailed
from corral.model.events import Noted
from corral.model.merge import BranchCheckout, MergeRecord, MergeRequest, Preview
from corral.rules.merge import merge as rules
from corral.rules.text import names as naming
from corral.store.interface import Store
from corral.store.records import latest_merge
from corral.world.git import merge_commits
from corral.world.git.merge_commits import MergeResult
from corral.world.git.move_branch import BranchMoved
from corral.world.git.repository import DiffSummary, Repository

MOST_MOVES = 5  #: how often a branch may be moved by others while we merge


class Merger(MergeComputation):
    """Merges the work of one run into its repository."""

    def __init__(self, store: Store, run: Run, repository: Repository, say: Say) -> None:
        super().__init__(store, run, repository)
        self.say = say
        self.branch_mover = BranchMover(store, repository, say)

    # --- look

    async def preview(self, request: MergeRequest) -> Preview:
        """Return what a merge would do."""
        request = self.complete_request(request)
        worked = await self.work_out(request)
        await self.refuse_another(request, worked)
        candidate, merged = worked.candidate, worked.merged
        commit, before = candidate.commit or "", worked.before
        change, behind, places = await asyncio.gather(
            self._change(candidate, before, merged.tree),
            merge_commits.behind(self.repository, commit, before) if before and commit else _zero(),
            self._places(request, worked),
        )
        return Preview(
            run=self.run.run,
            strategy=request.strategy,
            into=worked.ref.removeprefix("refs/heads/"),
            before=before,
            commit=commit,
            attempts=candidate.attempts,
            tree=merged.tree,
            fast_forward=behind == 0 and not merged.conflicts,
            behind=behind,
            files=change.files,
            insertions=change.insertions,
            deletions=change.deletions,
            conflicts=merged.conflicts,
            between=candidate.between,
            checks=candidate.checks,
            checkouts=places,
        )

    async def _places(self, request: MergeRequest, worked: ComputedMerge) -> tuple[BranchCheckout, ...]:
        """Return the checkouts that would follow, and what is in the way there."""
        if request.strategy == "apply" and worked.before:
            uncommitted = UncommittedChanges(self.store, self.repository)
            return await uncommitted.places(worked.ref, worked.before, worked.merged.tree)
        return await self.branch_mover.places(worked.ref, worked.before, worked.merged.tree)

    async def _change(self, candidate: Candidate, before: str | None, tree: str) -> DiffSummary:
        """Return what would change; how many lines is known of one whole attempt, and need not be counted again."""
        attempts = {each.id: each for node in self.run.nodes for each in node.attempts}
        one = attempts[candidate.attempts[0]] if len(candidate.attempts) == 1 else None
        if one is None or before is None or candidate.commit != one.commit:
            return await self.repository.change(before, tree)
        return DiffSummary(await self.repository.names_changed(before, tree), one.insertions, one.deletions)

    # --- merge

    async def merge(self, request: MergeRequest) -> MergeRecord:
        """Merge the work, or store what is in conflict; nothing is moved unless everything holds."""
        request = self.complete_request(request)
        async with self.branch_mover.alone():
            await self.branch_mover.recover()
            for _ in range(MOST_MOVES):
                try:
                    return await self._merge(request)
                except BranchMoved as moved:
                    self.say(f"{moved}: once more")
        raise BadRequest("the branch is moved all the time by someone else", hint="try again when it is quiet")

    async def _merge(self, request: MergeRequest) -> MergeRecord:
        worked = await self.work_out(request)
        await self.refuse_another(request, worked)
        self.store.merges.save(*(overlap.mark_reverted(each, time.time()) for each in worked.gone))
        if worked.merged.conflicts:
            return self._conflict(request, worked)
        waiting, choices = self.waiting.of(worked.ref), self.choices(request)
        if waiting and choices.new:  # whatever becomes of it now, nobody needs to choose again
            self.store.merges.save(structs.replace(waiting, choices=choices.all))
        after = await self.make_commit(request, worked)
        worked = structs.replace(worked, after=after)
        record = self.new_record(request, worked)
        if after == worked.before:
            self.say(f"{record.into} has this already")
            if waiting:
                self.waiting.drop(waiting, "settled")
            into_it = [each for each in self.store.merges.of_run(self.run.run) if each.ref == record.ref]
            if (last := latest_merge(into_it)) and last.state == "merged":
                return last
            return self.store.merges.add(structs.replace(record, state="merged"))
        await self.branch_mover.look(record, autostash=request.autostash)  # before anybody waits for checks
        checks = await self._prove(request, worked, after)
        record = await self.branch_mover.apply(structs.replace(record, checks=checks), autostash=request.autostash)
        self.note(
            f"merged into {record.into} ({request.strategy}): {(record.before or 'nothing')[:12]} -> {after[:12]}"
        )
        return record

    async def merge_tree(self, request: MergeRequest, worked: ComputedMerge, tree: str) -> MergeRecord:
        """Merge a merge whose conflicts were settled, and proven, elsewhere."""
        worked = structs.replace(worked, merged=MergeResult(tree))
        async with self.branch_mover.alone():
            worked = structs.replace(worked, after=await self.make_commit(request, worked))
            record = await self.branch_mover.apply(self.new_record(request, worked), autostash=request.autostash)
        self.note(f"merged into {record.into}, conflicts settled: {(worked.after or '')[:12]}")
        return record

    def _conflict(self, request: MergeRequest, worked: ComputedMerge) -> MergeRecord:
        record = structs.replace(
            self.new_record(request, worked),
            state="conflict",
            conflicts=worked.merged.conflicts,
            between=worked.candidate.between,
            choices=self.choices(request).all,
        )
        record = self.waiting.keep(record)
        names = ", ".join(conflict.path for conflict in record.conflicts)
        nodes = f" between {' and '.join(record.between)}" if record.between else ""
        self.note(f"not merged into {record.into}: conflicts{nodes} in {names}")
        return record

    def abort(self, into: str | None = None) -> None:
        """Give up a merge that is in conflict: what was chosen for it is forgotten, nothing else was ever changed."""
        waiting = self.waiting.of(f"refs/heads/{into}") if into else self.waiting.last()
        if waiting is None:
            raise BadRequest(
                f"run {self.run.run} has no merge{f' into {into}' if into else ''} in conflict",
                hint=f"corral show {self.run.run}",
            )
        self.waiting.drop(waiting, "abort")
        self.note(f"the merge into {waiting.into} was given up")

    def new_record(self, request: MergeRequest, worked: ComputedMerge) -> MergeRecord:
        """Return what is to be stored of a merge."""
        return MergeRecord(
            run=self.run.run,
            git_dir=str(self.repository.git_dir),
            state="begun",
            ref=worked.ref,
            before=worked.before,
            after=worked.after,
            strategy=request.strategy,
            at=time.time(),
            attempt=worked.candidate.attempts[-1] if worked.candidate.attempts else None,
            attempts=tuple(dict.fromkeys(worked.candidate.attempts)),
            heads=request.heads,
            proofs=request.proofs,
            pick=request.pick,
            take=request.take,
        )

    async def refuse_another(self, request: MergeRequest, worked: ComputedMerge) -> None:
        """Refuse to merge a rival of an attempt that the branch has; what would change nothing is let through."""
        before, merged = worked.before, worked.merged
        effective = [each for each in self.store.merges.list_effective(self.run.run, worked.ref) if each.after]
        if (
            before is None
            or not effective
            or not (merged.conflicts or merged.tree != await self.repository.tree_of(before))
        ):
            return
        effective = [each for each in effective if each not in worked.gone]
        there = [
            each for each in effective if await merge_commits.is_ancestor(self.repository, each.after or "", before)
        ]
        rules.refuse_another(self.run, self.new_record(request, worked), there)

    def note(self, words: str) -> None:
        """Write down, in the log of the run, what became of its merge."""
        self.store.note(self.run.run, Noted(words), at=time.time())
        self.store.flush()

    # --- making it

    async def make_commit(self, request: MergeRequest, worked: ComputedMerge) -> str:
        """Make the commit that the branch will point to, for everybody to see."""
        made = await self._make_commit(request, worked)
        await self.repository.publish()
        return made

    async def _make_commit(self, request: MergeRequest, worked: ComputedMerge) -> str:
        before, commit, tree = worked.before, worked.candidate.commit or "", worked.merged.tree
        by = await self.repository.identity()
        if before is None:
            return commit
        if tree == await self.repository.tree_of(before):
            return before
        into, attempts = worked.ref.removeprefix("refs/heads/"), worked.candidate.attempts
        has_it = bool(worked.gone) and await merge_commits.is_ancestor(self.repository, commit, before)
        if request.strategy == "squash" or has_it:
            message = rules.message(self.run, attempts, squashed=True, into=into)
            return await merge_commits.commit_tree(self.repository, tree, [before], message, by)
        if await merge_commits.is_ancestor(self.repository, before, commit):
            return commit
        if request.strategy == "rebase":
            return await self._rebase(before, commit, tree, by)
        message = rules.message(self.run, attempts, squashed=False, into=into)
        return await merge_commits.commit_tree(self.repository, tree, [before, commit], message, by)

    async def _rebase(self, before: str, commit: str, tree: str, by: tuple[str, str]) -> str:
        tip = await merge_commits.rebase(self.repository, before, commit, by)
        if isinstance(tip, MergeResult):
            names = ", ".join(conflict.path for conflict in tip.conflicts)
            hint = "as a whole it goes together: use --strategy auto or squash"
            raise BadRequest(f"commit by commit it does not go together: {names}", hint=hint)
        if await self.repository.tree_of(tip) != tree:
            raise BadRequest(
                "laid commit by commit on the branch it would not be the same", hint="use --strategy auto or squash"
            )
        return tip

    async def _prove(self, request: MergeRequest, worked: ComputedMerge, after: str) -> tuple[CheckResult, ...]:
        """Run the checks on the merged tree; what a receipt shows for this very tree is not run again."""
        candidate = worked.candidate
        if not request.checks or not candidate.checks or worked.merged.tree in candidate.proven:
            return ()
        self.say(f"running {_checks(candidate.checks)} on the merged tree")
        results = await self.check(after, candidate.checks, candidate.agent)
        failed = [result for result in results if not result.passed]
        if failed:
            tail = "".join(f"\n  | {line}" for line in failed[0].output.splitlines()[-10:])
            words = f"`{failed[0].command}` fails on the merged tree; nothing was moved{tail}"
            self.note(words)
            raise ChecksFailed(words, hint="each side may be good alone; --no-checks merges it anyway")
        return tuple(results)

    async def check(self, commit: str, checks: Sequence[str], agent: str) -> list[CheckResult]:
        """Run checks in a clean checkout of a commit, in a box."""
        name = f"{self.run.run}-merge"
        host = Host(self.plan, self.plan.flow.nodes[0].task, self.repository, self.store.folder, name)
        top = self.repository.folder
        fitted = scope.of_agent(self.plan.scopes, agent, self.plan.ignore)
        host.boxes.fitted = await scope.fit(fitted, MachinePaths(tree=top, state=self.store.folder, checkout=top))
        folder = self.store.folder / "workspaces" / f"{name}-check"
        return await checking.run(host, folder, commit, checks, lambda _: None)

    # --- strategies that move no branch of the user's

    async def as_branch(self, request: MergeRequest) -> MergeRecord:
        """Make a branch of the merged result and leave the target where it is."""
        async with self.branch_mover.alone():
            await self.branch_mover.recover()
            request = self.complete_request(request)
            worked = await self.work_out(request)
            if worked.merged.conflicts:
                return self._conflict(request, worked)
            after = await self.make_commit(structs.replace(request, strategy="auto"), worked)
            checks = await self._prove(request, worked, after)
            ref = "refs/heads/" + naming.merged_branch(self.run.run)
            record = structs.replace(
                self.new_record(request, worked), ref=ref, before=await self.repository.commit_of(ref), after=after
            )
            if waiting := self.waiting.of(worked.ref):
                self.waiting.drop(waiting, "settled")
            if record.before == after:
                return self.store.merges.add(structs.replace(record, state="merged"))
            record = await self.branch_mover.apply(structs.replace(record, checks=checks))
        self.note(f"made the branch {record.into}")
        return record

    async def into_checkout(self, request: MergeRequest) -> MergeRecord:
        """Put the merged result into the checkout as changes that are not committed; no branch moves."""
        async with self.branch_mover.alone():
            await self.branch_mover.recover()
            request = self.complete_request(request)
            worked = await self.work_out(request)
            await self.refuse_another(request, worked)
            if worked.merged.conflicts:
                return self._conflict(request, worked)
            if worked.before is None:
                raise BadRequest("the branch has no commit yet", hint="use --strategy auto")
            message = rules.message(self.run, worked.candidate.attempts, squashed=True, into=request.into or "")
            by = await self.repository.identity()
            tree, parents = worked.merged.tree, [worked.before]
            if tree == await self.repository.tree_of(worked.before):
                raise BadRequest(
                    f"{worked.ref.removeprefix('refs/heads/')} has this already", hint=f"corral show {self.run.run}"
                )
            after = await merge_commits.commit_tree(self.repository, tree, parents, message, by)
            await self.repository.publish()
            record = self.new_record(request, structs.replace(worked, after=after))
            uncommitted = UncommittedChanges(self.store, self.repository)
            for place in await uncommitted.places(worked.ref, worked.before, after):  # before anybody waits for checks
                if place.trouble:
                    raise BadRequest(f"{place.folder}: {place.trouble}; nothing was changed", hint=DIRTY)
            checks = await self._prove(request, worked, after)
            record = await uncommitted.apply(structs.replace(record, checks=checks))
            if waiting := self.waiting.of(worked.ref):
                self.waiting.drop(waiting, "settled")
        self.note(f"put into the checkout of {record.into}, not committed")
        return record


async def _zero() -> int:
    return 0


def _checks(checks: Sequence[str]) -> str:
    return f"`{checks[0]}`" if len(checks) == 1 else f"{len(checks)} checks"
