"""Merges that leave the machine's branches alone: as a patch, or as a pull request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from msgspec import structs

from corral.engine.merge.merger import Merger
from corral.model.errors import BadRequest, CorralError
from corral.model.merge import MergeRecord, MergeRequest
from corral.rules.merge import merge as rules
from corral.world import process
from corral.world.process import ProcessStart


async def patch(merger: Merger, request: MergeRequest, sink: Callable[[bytes], object]) -> MergeRecord:
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


async def pull_request(merger: Merger, request: MergeRequest) -> MergeRecord:
    """Push the merged result as a branch and open a pull request with the person's own `gh`."""
    program = shutil.which("gh")
    if program is None:
        raise BadRequest("a pull request needs the program `gh`", hint="install it, or use --strategy branch and push")
    repository = merger.repository
    remotes = (await repository.text("remote")).split()
    if not remotes:
        raise BadRequest("the repository has no remote to push to", hint="git remote add origin URL")
    remote = "origin" if "origin" in remotes else remotes[0]
    record = await merger.as_branch(request)
    if record.state == "conflict":
        return record
    push = ["git", "-c", "core.hooksPath=/dev/null", "push", "--quiet", "--force", remote, f"{record.ref}:{record.ref}"]
    await _run_as_user(push, merger)
    title, body = rules.subject(merger.run), rules.message(merger.run, (), squashed=True, into="")
    base = request.into or merger.plan.into or ""
    words = [program, "pr", "create", "--head", record.into, "--base", base, "--title", title, "--body", body]
    told = (await _run_as_user(words, merger)).split()
    record = structs.replace(record, url=told[-1] if told else "")
    merger.store.merges.save(record)
    return record


async def _run_as_user(argv: list[str], merger: Merger) -> str:
    """Run a program as the person would, with their own settings and keys: it goes to the network in their name."""
    start = ProcessStart(
        argv=argv, env=dict(os.environ), cwd=str(merger.repository.folder), owner=merger.repository.owner
    )
    finished = await process.run(start)
    if finished.code != 0:
        words = finished.err.decode(errors="replace").strip()[-400:]
        raise CorralError(f"{argv[0]} ended with {finished.code}: {words}", hint="the branch is there; try it by hand")
    return finished.out.decode(errors="replace")
