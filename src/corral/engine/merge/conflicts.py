"""Conflicts of a merge with their contents: for a user who resolves them, or for an agent in a run of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from corral.engine.context import Driver
from corral.engine.merge.computation import ComputedMerge
from corral.engine.merge.merger import Merger
from corral.model import Request, Run
from corral.model.errors import BadRequest
from corral.model.events import RunEvent
from corral.model.merge import Choice, Conflict, ConflictedFile, Conflicts, MergeRecord, MergeRequest, Version
from corral.world.git import blobs, incoming_objects, merge_commits, resolve_conflicts
from corral.world.git.repository import GITLINK

MARKS = re.compile(rb"^(<{7} |>{7} )", re.MULTILINE)
RESOLVE_TASK = """Two lines of work were merged and do not go together in these files:

{files}

The base of this repository is that merge. Lines between <<<<<<< and >>>>>>> are in conflict: above ======= is what
the branch has, below it what the work named here brings. Settle each so that both purposes are kept, remove every mark,
and change nothing else. The work to be merged was: {task}"""


async def conflicts_of(merger: Merger, request: MergeRequest, only: str | None = None) -> Conflicts:
    """Return what prevents a merge, settled already or not, with the texts of all sides."""
    if request.into is None and (waiting := merger.waiting.last()):
        request = structs.replace(request, into=waiting.into)
    request = merger.complete_request(request)
    worked = await merger.work_out(request)
    settled = merger.choices(request).settled
    found = {conflict.path: conflict for conflict in worked.merged.conflicts}
    found |= {path: conflict for path, (conflict, _) in settled.items() if path not in found}
    if only is not None:
        found = {path: conflict for path, conflict in found.items() if path == only}
    marked = await resolve_conflicts.entries_of(merger.repository, worked.merged.tree, list(found)) if found else {}
    names = [blob for conflict in found.values() for blob in conflict.blobs if blob]
    names += [blob for path, (_, blob) in marked.items() if path in found]
    read = _FileVersions(await blobs.sizes(merger.repository, names), await blobs.contents(merger.repository, names))
    left = {conflict.path for conflict in worked.merged.conflicts}
    return Conflicts(
        run=merger.run.run,
        into=worked.ref.removeprefix("refs/heads/"),
        strategy=request.strategy,
        before=worked.before,
        commit=worked.candidate.commit,
        waits=merger.waiting.of(worked.ref) is not None,
        agent=_for_agent(worked),
        between=worked.candidate.between,
        conflicts=tuple(
            read.file(conflict, marked.get(path), None if path in left else settled[path][1])
            for path, conflict in sorted(found.items())
        ),
    )


def _for_agent(worked: ComputedMerge) -> bool:
    """Tell whether an agent can settle it: it needs a tree in which the marks are."""
    conflicts = worked.merged.conflicts
    whole = worked.before is not None and worked.candidate.commit is not None
    return bool(conflicts) and whole and not any(resolve_conflicts.is_submodule(conflict) for conflict in conflicts)


class _FileVersions:
    """What was read of the versions of all files."""

    def __init__(self, sizes: Mapping[str, int], contents: Mapping[str, bytes]) -> None:
        self._sizes, self._contents = sizes, contents

    def file(self, conflict: Conflict, marked: tuple[str, str] | None, choice: Choice | None) -> ConflictedFile:
        base, ours, theirs = (
            self._version(mode, blob) for mode, blob in zip(conflict.modes, conflict.blobs, strict=True)
        )
        return ConflictedFile(
            path=conflict.path,
            kind=conflict.kind,
            words=conflict.words,
            base=base,
            ours=ours,
            theirs=theirs,
            merged=self._version(*marked) if marked and marked[1] not in conflict.blobs else None,
            choice=(choice.side or "text") if choice else None,
        )

    def _version(self, mode: str | None, blob: str | None) -> Version | None:
        if mode is None or blob is None:
            return None
        size = self._sizes.get(blob, 0)
        if mode == GITLINK or blob not in self._contents:
            return Version(blob=blob, mode=mode, size=size, large=mode != GITLINK)
        content = self._contents[blob]
        text = _text(content)
        return Version(blob=blob, mode=mode, size=size, text=text, binary=text is None)


def _text(content: bytes) -> str | None:
    """Return a content as text if it comes back from it unchanged."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


async def resolve_by_agent(driver: Driver, merger: Merger, request: MergeRequest, record: MergeRecord) -> MergeRecord:
    """Let an agent settle what is in conflict, and merge that; what it cannot settle stays with the user."""
    request = merger.complete_request(request)
    with incoming_objects.stage(merger.repository):
        worked, base = await _pin_conflict(merger, request)
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


async def _pin_conflict(merger: Merger, request: MergeRequest) -> tuple[ComputedMerge, str]:
    """Return a merge and the commit, held by a ref, that shows its conflicts."""
    worked = await merger.work_out(request)
    before, commit = worked.before, worked.candidate.commit
    if before is None or commit is None or not worked.merged.conflicts:
        raise BadRequest(
            "parts of the run itself are in conflict: an agent cannot settle that here",
            hint="settle each file with --resolve PATH=SIDE",
        )
    if any(resolve_conflicts.is_submodule(conflict) for conflict in worked.merged.conflicts):
        raise BadRequest("a submodule is in conflict: no agent can settle that", hint="--resolve PATH=ours or theirs")
    base = await merge_commits.commit_tree(merger.repository, worked.merged.tree, [before, commit], "in conflict")
    await merger.repository.publish()
    await merger.repository.git("update-ref", f"refs/corral/conflicts/{merger.run.run}", base)
    return worked, base


def _agent_request(merger: Merger, request: MergeRequest, base: str, worked: ComputedMerge) -> Request:
    plan, conflicts, checks = merger.plan, worked.merged.conflicts, worked.candidate.checks
    files = "\n".join(f"- {conflict.path} ({conflict.kind}) {conflict.words}".rstrip() for conflict in conflicts)
    return Request(
        prompt=RESOLVE_TASK.format(files=files, task=merger.run.task),
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
