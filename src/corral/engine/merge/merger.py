"""Merge a run: work out what would come of it, prove that, land it; or say exactly what stands against it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct, structs

from corral.attempt.repositories import require
from corral.engine.context import Say
from corral.engine.merge import pick_files, reverted
from corral.engine.merge.apply import BranchMover
from corral.engine.merge.open_conflicts import ConflictChoices, OpenConflicts
from corral.engine.merge.uncommitted import DIRTY, UncommittedChanges
from corral.machines import checks as checking
from corral.machines import scope
from corral.machines.host import Host
from corral.model import Attempt, CheckResult, NodeState, Run, RunPlan
from corral.model.errors import BadRequest, ChecksFailed, Conflicting
from corral.model.events import Noted
from corral.model.merge import BranchCheckout, Conflict, MergeRecord, MergeRequest, Preview
from corral.rules.merge import merge as rules
from corral.rules.text import names as naming
from corral.store.interface import Store
from corral.store.records import latest_merge
from corral.world.git import merge_commits, move_branch, resolve_conflicts
from corral.world.git.merge_commits import CombinedCommit, MergeResult
from corral.world.git.move_branch import BranchMoved
from corral.world.git.repository import DiffSummary, Repository
from corral.world.sandbox.scope_paths import MachinePaths

MOST_MOVES = 5  #: how often a branch may be moved by others while we merge


class Candidate(Struct, frozen=True, kw_only=True):
    """What is to be merged."""

    commit: str | None  #: None: the parts of the run do not go together
    attempts: tuple[str, ...]
    checks: tuple[str, ...]
    proven: tuple[str, ...] = ()  #: trees for which receipts show that these checks pass
    conflicts: tuple[Conflict, ...] = ()
    between: tuple[str, str] | None = None  #: nodes whose work is in conflict
    agent: str = ""


class ComputedMerge(Struct, frozen=True, kw_only=True):
    """A merge as worked out: nothing is moved yet."""

    candidate: Candidate
    ref: str
    before: str | None
    merged: MergeResult
    after: str | None = None
    gone: tuple[MergeRecord, ...] = ()  #: merges of the run that the branch had, and a person took back with git


class Merger:
    """Merges the work of one run into its repository."""

    def __init__(self, store: Store, run: Run, repository: Repository, say: Say) -> None:
        self.store, self.run, self.repository, self.say = store, run, repository, say
        self.plan: RunPlan = store.run(run.run).plan
        self.branch_mover = BranchMover(store, repository, say)
        self.waiting = OpenConflicts(store, run.run)
        self._made: tuple[MergeRequest, ConflictChoices] | None = None

    def choices(self, request: MergeRequest) -> ConflictChoices:
        """Return what is chosen by a request, and was before."""
        if self._made is None or self._made[0] is not request:
            waiting = self.waiting.of(self._ref(request))
            choices = ConflictChoices(self.repository, request, waiting)
            choices.answer = self.waiting.answer(waiting) if waiting else None
            self._made = request, choices
        return self._made[1]

    def complete_request(self, request: MergeRequest) -> MergeRequest:
        """Return a request as it is meant: one that says less than the merge that waits goes on with that."""
        waiting = self.waiting.of(self._ref(request))
        if waiting is None and request.into is None and (request.resolve or request.texts or request.resolve_with):
            waiting = self.waiting.last()
        if waiting is None:
            return request
        plain = not (request.pick or request.take or request.heads)
        return structs.replace(
            request,
            into=waiting.into,
            strategy=waiting.strategy if request.strategy == "auto" else request.strategy,
            pick=waiting.pick if plain else request.pick,
            take=waiting.take if plain else request.take,
            heads=waiting.heads if plain else request.heads,
            proofs=waiting.proofs if plain else request.proofs,
        )

    def _ref(self, request: MergeRequest) -> str:
        return f"refs/heads/{request.into or self.plan.into}"

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
        """Return what would change; how many lines is known of a single attempt, and need not be counted again."""
        attempts = {each.id: each for node in self.run.nodes for each in node.attempts}
        if len(candidate.attempts) != 1 or before is None:
            return await self.repository.change(before, tree)
        one = attempts[candidate.attempts[0]]
        return DiffSummary(await self.repository.names_changed(before, tree), one.insertions, one.deletions)

    # --- merge

    async def merge(self, request: MergeRequest) -> MergeRecord:
        """Land the work, or store what is in conflict; nothing is moved unless everything holds."""
        request = self.complete_request(request)
        async with self.branch_mover.alone():
            await self.branch_mover.recover()
            for _ in range(MOST_MOVES):
                try:
                    return await self._merge(request)
                except BranchMoved as moved:
                    self.say(f"{moved}: once more")
        raise BadRequest("the branch is moved all the time by somebody else", hint="try again when it is quiet")

    async def _merge(self, request: MergeRequest) -> MergeRecord:
        worked = await self.work_out(request)
        await self.refuse_another(request, worked)
        self.store.merges.save(*(reverted.mark_reverted(each, time.time()) for each in worked.gone))
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
        """Land a merge whose conflicts were settled, and proven, elsewhere."""
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
            raise BadRequest(f"run {self.run.run} has no merge{f' into {into}' if into else ''} in conflict")
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
        """Refuse to land a rival of an attempt that the branch has; what would change nothing is let through."""
        before, merged = worked.before, worked.merged
        stands = [each for each in self.store.merges.standing(self.run.run, worked.ref) if each.after]
        if (
            before is None
            or not stands
            or not (merged.conflicts or merged.tree != await self.repository.tree_of(before))
        ):
            return
        stands = [each for each in stands if each not in worked.gone]
        there = [each for each in stands if await merge_commits.is_ancestor(self.repository, each.after or "", before)]
        rules.refuse_another(self.run, self.new_record(request, worked), there)

    def note(self, words: str) -> None:
        """Write down, in the log of the run, what became of its merge."""
        self.store.note(self.run.run, Noted(words), at=time.time())
        self.store.flush()

    # --- what would come of it

    async def work_out(self, request: MergeRequest) -> ComputedMerge:
        """Return what would come of a merge; only objects are written."""
        candidate = await self.candidate(request)  # what it refuses must not cancel programs that start meanwhile
        ref, before = await self.target(request)
        if request.seen not in (None, before):
            raise Conflicting(
                f"{ref.removeprefix('refs/heads/')} has moved since you looked at the conflicts", hint="look again"
            )
        had = [each for each in self.store.merges.of_run(self.run.run) if each.ref == ref and each.by_hand]
        gone = await reverted.reverted_merges(self.repository, [*self.store.merges.standing(self.run.run, ref), *had])
        if candidate.commit is None:
            tree = before or self.plan.base or ""
            merged = MergeResult(await self.repository.tree_of(tree) if tree else "", candidate.conflicts)
        else:
            merged = await self.merge_with(request, before, candidate.commit, since=self.plan.base if gone else None)
        self.choices(request).check(merged.conflicts)
        if merged.conflicts:
            await self.repository.publish()  # users look at both sides later
        return ComputedMerge(candidate=candidate, ref=ref, before=before, merged=merged, gone=tuple(gone))

    async def merge_with(
        self, request: MergeRequest, before: str | None, commit: str, since: str | None = None
    ) -> MergeResult:
        """Merge a commit with another, as the strategy and the choices that were made say.

        `since` is where the work began, for a branch that had it already: git itself would think that it still does.
        """
        if before is None:
            return MergeResult(await self.repository.tree_of(commit))
        if since is None:
            merged = await merge_commits.merge_trees(self.repository, before, commit)
        else:
            merged = await merge_commits.merge_since(self.repository, since, before, commit)
        if merged.conflicts:
            merged = await self.choices(request).settle(merged)
        if merged.conflicts and request.strategy in ("ours", "theirs"):
            merged = await resolve_conflicts.prefer(self.repository, merged, request.strategy)
        return merged

    async def target(self, request: MergeRequest) -> tuple[str, str | None]:
        """Return the ref to move, and where it is now."""
        into = request.into or self.plan.into
        if into is None:
            raise BadRequest(
                f"run {self.run.run} started from no branch", hint=f"name one: corral merge {self.run.run} --into main"
            )
        ref = f"refs/heads/{into}"
        before = await self.repository.commit_of(ref)
        if before is None and (request.into or self.plan.base is not None):
            raise BadRequest(f"there is no branch `{into}`", hint="see `git branch`")
        if why := await move_branch.unfinished_work(self.repository, ref):
            raise BadRequest(f"the branch {into} cannot be moved: {why}", hint="end that first")
        return ref, before

    async def candidate(self, request: MergeRequest) -> Candidate:
        """Return the commit to merge: of each node that is done its winner's, combined; or what was picked or taken."""
        if request.take:
            taken = await pick_files.combine_picks(self.repository, self.run, self.plan.base, request.take)
            return self._candidate(taken.pairs, taken.commit)
        if request.heads:
            await require(self.repository, self.run.run, request.heads)
            message = rules.message(self.run, [], squashed=True, into="")
            made = await self._combine(request, request.heads, message)
            between = rules.nodes_of(self.run, made.between)
            return Candidate(
                commit=made.commit, attempts=(), checks=request.proofs, conflicts=made.conflicts, between=between
            )
        pairs = rules.attempts_to_merge(self.run, request.pick)
        commits = [attempt.commit for _, attempt in pairs if attempt.commit]
        await require(self.repository, self.run.run, commits)
        message = rules.message(self.run, [a.id for _, a in pairs], squashed=True, into="")
        combined = await self._combine(request, commits, message)
        kept = [(node, each) for node, each in pairs if combined.commit is None or each.commit in commits]
        between = rules.nodes_of(self.run, combined.between)
        return structs.replace(self._candidate(kept, combined.commit, combined.conflicts), between=between)

    async def _combine(self, request: MergeRequest, commits: Sequence[str], message: str) -> CombinedCommit:
        """Make one commit of several; where they do not go together, by the strategy and the choices that were made."""
        combined = await merge_commits.combine(self.repository, commits, message)
        if combined.commit is not None:
            return combined
        sum_so_far = commits[0]
        for place, commit in enumerate(commits[1:], 2):
            merged = await self.merge_with(request, sum_so_far, commit)
            if merged.conflicts:
                return combined
            sum_so_far = await merge_commits.commit_tree(self.repository, merged.tree, commits[:place], message)
        return CombinedCommit(sum_so_far)

    def _candidate(
        self, pairs: Sequence[tuple[NodeState, Attempt]], commit: str | None, conflicts: tuple[Conflict, ...] = ()
    ) -> Candidate:
        tasks = {node.id: node.task.checks for node in self.plan.flow.nodes}
        checks: dict[str, None] = {}
        for node, attempt in pairs:  # as they were run; one that never came to its checks has those of its task
            ran = tuple(check.command for check in attempt.checks)
            checks |= dict.fromkeys(ran or tasks.get(node.id, ()))
        receipts = {record.attempt.id: record.receipt for record in self.store.attempts(self.run.run)}
        proven = [
            receipt.tree
            for _, attempt in pairs
            if (receipt := receipts.get(attempt.id))
            and set(checks) <= {check.command for check in receipt.checks if check.passed}
        ]
        return Candidate(
            commit=commit,
            attempts=tuple(attempt.id for _, attempt in pairs),
            checks=tuple(checks),
            proven=tuple(proven),
            conflicts=conflicts,
            agent=pairs[-1][1].agent,
        )

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
            raise ChecksFailed(words, hint="each side may be good alone; --no-checks lands it all the same")
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

    # --- strategies that move no branch of the person's

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
                raise BadRequest(f"{worked.ref.removeprefix('refs/heads/')} has this already")
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
