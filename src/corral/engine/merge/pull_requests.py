"""Pull requests of runs: the merged result is pushed by the engine, and a draft is opened on the forge."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import structs

from corral.attempt.repositories import load_forge_settings
from corral.engine.merge.merger import Merger
from corral.model.errors import BadRequest, CorralError
from corral.model.forge import ForgeSettings, PullRequest
from corral.model.merge import MergeRecord, MergeRequest
from corral.rules.merge import pull_request as wording
from corral.rules.text import names
from corral.store.interface import Store
from corral.world import process
from corral.world.forge.finding import forge_at
from corral.world.forge.forge import Forge, PullSource, PullText
from corral.world.forge.gitlab import push_options
from corral.world.forge.remotes import ForgePlace, addresses, fork_of, place_of, push, push_remote
from corral.world.process import ProcessStart


async def publish_pull_request(merger: Merger, request: MergeRequest, home: Path) -> MergeRecord:
    """Push the merged result as a branch, and open a draft pull request or bring it up to date."""
    settings = load_forge_settings(Path(merger.plan.repo), home)
    remote, url = await push_remote(merger.repository)
    place = place_of(url, settings)
    if place is None:
        return await _open_by_gh(merger, request, remote)
    fork = await fork_of(merger.repository, settings, place)
    record = await merger.as_branch(request)
    if record.state == "conflict":
        return record
    into = request.into or merger.plan.into or ""
    text = PullText(
        title=wording.title(merger.run, merger.plan.issue),
        body=wording.body(merger.run, merger.plan.issue, record.attempts),
        branch=record.into,
        into=into,
        source=fork[1] if fork else "",
    )
    found = await _publish(merger, record, (fork[0] if fork else remote, place, settings), text)
    merger.store.merges.put_pull_request(merger.run.run, found)
    merger.note(f"pull request: {found.url}")
    record = structs.replace(record, url=found.url)
    merger.store.merges.save(record)
    return record


def run_of_pull(store: Store, number: int, repository: str, source: PullSource) -> str | None:
    """Return the run whose pull request has a number; None of one that others opened, or from a fork of others."""
    run = source.branch.removeprefix(names.merged_branch(""))
    pull = store.merges.pull_request(run) if source.branch == names.merged_branch(run) else None
    if pull is None or (pull.number, pull.repository) != (number, repository):
        return None
    return run if source.repository.casefold() == (pull.source or pull.repository).casefold() else None


async def _publish(
    merger: Merger, record: MergeRecord, there: tuple[str, ForgePlace, ForgeSettings], text: PullText
) -> PullRequest:
    remote, place, settings = there
    known = merger.store.merges.pull_request(merger.run.run)
    known = (
        known
        if known and known.branch == record.into and (known.repository, known.source) == (place.path, text.source)
        else None
    )
    forge = forge_at(place, settings)
    able = forge is not None and forge.client.may_write
    options = push_options(text, place.path) if place.kind == "gitlab" and not able and not known else []
    token = (forge.client.token, place.host) if forge and forge.client.token else None
    before = known.commit if known else ""
    said = await push(
        merger.repository, remote, record.ref, before=before, say=merger.say, token=token, options=options
    )
    printed = addresses(said)
    pushed = PullRequest(
        url=known.url if known else next(iter(printed), f"{place.page}"),
        number=known.number if known else None,
        state=known.state if known else "pushed",
        branch=record.into,
        into=text.into,
        commit=record.after or "",
        forge=place.kind,
        repository=place.path,
        source=text.source,
        attempts=record.attempts,
        revisions=known.revisions if known else 0,
    )
    merger.store.merges.put_pull_request(merger.run.run, pushed)  # what comes next may fail, and be tried again
    if forge is not None and able:
        opened = await _open(forge, text, pushed)
        if known and known.number and opened.number != known.number:
            merger.say(f"{known.url} is not open any more and stays as it is; a new pull request is open: {opened.url}")
        return opened
    number = pushed.number or _number(pushed.url)
    if number is not None:
        return structs.replace(pushed, number=number, state="draft" if pushed.state == "pushed" else pushed.state)
    merger.say(f"pushed {record.into}; open the pull request: {pushed.url}")
    return pushed


async def _open(forge: Forge, text: PullText, pushed: PullRequest) -> PullRequest:
    try:
        opened = await forge.open(text)
    except CorralError as error:
        hint = f"{pushed.branch} is pushed: open it at {forge.place.page}" + (f"; {error.hint}" if error.hint else "")
        raise CorralError(f"no pull request was opened: {error}", hint=hint) from error
    return structs.replace(pushed, url=opened.url, number=opened.number, state=opened.state)


def _number(url: str) -> int | None:
    """Return the number of a merge request whose address a push printed."""
    last = url.rstrip("/").rpartition("/")
    return int(last[2]) if last[0].endswith(("/merge_requests", "/pull", "/pulls")) and last[2].isdecimal() else None


async def _open_by_gh(merger: Merger, request: MergeRequest, remote: str) -> MergeRecord:
    """Open a pull request of a remote that is no address with the user's own `gh`, which may know better."""
    program = shutil.which("gh")
    if program is None:
        hint = "use --strategy branch and push it, or give the remote its web address: git remote set-url origin URL"
        raise BadRequest("the remote is no forge; a pull request needs its address, or the program `gh`", hint=hint)
    record = await merger.as_branch(request)
    if record.state == "conflict":
        return record
    known = merger.store.merges.pull_request(merger.run.run)
    await push(merger.repository, remote, record.ref, before=known.commit if known else "", say=merger.say)
    body, into = wording.body(merger.run, merger.plan.issue, record.attempts), request.into or merger.plan.into or ""
    words = [program, "pr", "create", "--head", record.into, "--base", into, "--draft"]
    words += ["--title", wording.title(merger.run, merger.plan.issue), "--body-file", "-"]
    start = ProcessStart(
        argv=words, env=dict(os.environ), cwd=str(merger.repository.folder), owner=merger.repository.owner,
        stdin=body.encode(),
    )  # fmt: skip
    ended = await process.run(start)
    if ended.code != 0:
        said = " ".join(ended.err.decode(errors="replace").split())[-400:]
        raise CorralError(f"gh ended with {ended.code}: {said}", hint=f"{record.into} is pushed; try it by hand")
    url = next(iter(ended.out.decode(errors="replace").split()[-1:]), "")
    found = PullRequest(
        url=url, number=_number(url), state="draft", branch=record.into, into=into, commit=record.after or "",
        forge="github", attempts=record.attempts,
    )  # fmt: skip
    merger.store.merges.put_pull_request(merger.run.run, found)
    record = structs.replace(record, url=url)
    merger.store.merges.save(record)
    return record
