"""Have an agent settle the conflicts of a merge: a run of its own, boxed and proven like any other."""

from __future__ import annotations

import re

from corral.engine.context import Driver
from corral.engine.merge.merger import ComputedMerge, Merger
from corral.model import Request, Run
from corral.model.errors import BadRequest
from corral.model.events import RunEvent
from corral.model.merge import Conflict, MergeRecord, MergeRequest
from corral.world.git import merge_commits, resolve_conflicts

MARKS = re.compile(rb"^(<{7} |>{7} )", re.MULTILINE)
TASK = """Two lines of work were merged and do not go together in these files:

{files}

The base of this repository is that merge. Lines between <<<<<<< and >>>>>>> stand in conflict: above ======= is what
the branch has, below it what the work named here brings. Settle each so that both purposes are kept, remove every mark,
and change nothing else. The work to be merged was: {task}"""


async def by_agent(driver: Driver, merger: Merger, request: MergeRequest, record: MergeRecord) -> MergeRecord:
    """Let an agent settle what is in conflict, and land that; what it cannot settle stays with the person."""
    request = merger.complete_request(request)
    worked = await merger.work_out(request)
    before, commit = worked.before, worked.candidate.commit
    if before is None or commit is None or not worked.merged.conflicts:
        raise BadRequest("parts of the run itself are in conflict: an agent cannot settle that here")
    if any(resolve_conflicts.is_submodule(conflict) for conflict in worked.merged.conflicts):
        raise BadRequest("a submodule is in conflict: no agent can settle that", hint="--resolve PATH=ours or theirs")
    base = await merge_commits.commit_tree(merger.repository, worked.merged.tree, [before, commit], "in conflict")
    await merger.repository.git("update-ref", f"refs/corral/conflicts/{merger.run.run}", base)
    asked = _agent_request(merger, request, base, worked)
    for number in range(request.tries):
        name = await driver.submit(asked, merger.say)
        merger.say(f"{request.resolve_with} settles the conflicts in run {name} (try {number + 1} of {request.tries})")
        run = await driver.execute(name, _ignore_event)
        settled = await _resolved_tree(merger, run, worked.merged.conflicts)
        if settled:
            return await merger.merge_tree(request, worked, settled)
    merger.say(f"{request.resolve_with} could not settle it: it is left to you")
    return record


def _agent_request(merger: Merger, request: MergeRequest, base: str, worked: ComputedMerge) -> Request:
    plan, conflicts, checks = merger.plan, worked.merged.conflicts, worked.candidate.checks
    files = "\n".join(f"- {conflict.path} ({conflict.kind}) {conflict.words}".rstrip() for conflict in conflicts)
    return Request(
        prompt=TASK.format(files=files, task=merger.run.task),
        repo=plan.repo,
        agents=(request.resolve_with or "",),
        files=tuple(conflict.path for conflict in conflicts),
        checks=checks if request.checks else (),
        base=base,
        require=plan.level,
        unsandboxed=plan.level == "none",
        retries=0,
    )


async def _resolved_tree(merger: Merger, run: Run, conflicts: tuple[Conflict, ...]) -> str | None:
    """Return the tree in which everything is settled; None where marks are left or the run did not prove it."""
    won = [attempt for node in run.nodes for attempt in node.attempts if attempt.id == node.winner and attempt.commit]
    if run.status != "done" or not won:
        merger.say(f"run {run.run} is {run.status}: {run.reason or 'see `corral show`'}")
        return None
    commit = won[-1].commit or ""
    left = await resolve_conflicts.entries_of(merger.repository, commit, [conflict.path for conflict in conflicts])
    for path, (_, blob) in left.items():
        if MARKS.search(await merger.repository.blob(blob)):
            merger.say(f"{path} still has marks of the conflict")
            return None
    return await merger.repository.tree_of(commit)


def _ignore_event(_: RunEvent) -> None:
    """Follow nothing: `corral logs` shows it."""
