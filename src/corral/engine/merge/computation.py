"""What would come of a merge, computed with nothing moved: its candidate, its target, and the merged tree."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from corral.attempt.repositories import other_machines, require
from corral.engine.merge import overlap, pick_files
from corral.engine.merge.open_conflicts import ConflictChoices, OpenConflicts
from corral.model import Attempt, NodeState, Run, RunPlan
from corral.model.errors import BadRequest, Conflicting
from corral.model.merge import Conflict, MergeRecord, MergeRequest
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.world.git import merge_commits, move_branch, resolve_conflicts
from corral.world.git.merge_commits import CombinedCommit, MergeResult
from corral.world.git.repository import Repository


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
    gone: tuple[MergeRecord, ...] = ()  #: merges of the run that the branch had, and a user took back with git


class MergeComputation:
    """Computes merges of one run; only objects are written."""

    def __init__(self, store: Store, run: Run, repository: Repository) -> None:
        self.store, self.run, self.repository = store, run, repository
        self.plan: RunPlan = store.run(run.run).plan
        self.waiting = OpenConflicts(store, run.run)
        self._elsewhere = other_machines(store, self.plan.git_dir)
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
        """Return a request as it is meant: one that says less than the merge that waits continues that."""
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

    async def work_out(self, request: MergeRequest) -> ComputedMerge:
        """Return what would come of a merge; only objects are written."""
        candidate = await self.candidate(request)  # what it refuses must not cancel programs that start meanwhile
        ref, before = await self.target(request)
        if request.seen not in (None, before):
            raise Conflicting(
                f"{ref.removeprefix('refs/heads/')} has moved since you looked at the conflicts", hint="look again"
            )
        had = [each for each in self.store.merges.of_run(self.run.run) if each.ref == ref and each.by_hand]
        gone = await overlap.reverted_merges(
            self.repository, [*self.store.merges.list_effective(self.run.run, ref), *had]
        )
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
            run = self.run.run
            hint = f"name one: corral merge {run} --into main; or apply it: corral diff {run} | git apply"
            raise BadRequest(f"run {run} started from no branch", hint=hint)
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
            await require(self.repository, self.run.run, request.heads, elsewhere=self._elsewhere)
            message = rules.message(self.run, [], squashed=True, into="")
            made = await self._combine(request, request.heads, message)
            between = rules.nodes_of(self.run, made.between)
            return Candidate(
                commit=made.commit, attempts=(), checks=request.proofs, conflicts=made.conflicts, between=between
            )
        pairs = rules.attempts_to_merge(self.run, request.pick)
        commits = [attempt.commit for _, attempt in pairs if attempt.commit]
        await require(self.repository, self.run.run, commits, elsewhere=self._elsewhere)
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
