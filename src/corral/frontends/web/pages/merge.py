"""Merge: what would happen first, then the deed, then its undoing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.views.changes import ChangeSelection
from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import MergeCaller, Reader, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model import OPEN, Run
from corral.model.errors import CorralError
from corral.model.merge import STRATEGIES, FilePick, MergeRequest, Preview, Strategy

router = APIRouter()
TAKEN = re.compile(r"t\d+")
PIECE = re.compile(r"h\d+_\d+_\d+")
PARTS = re.compile(f"{TAKEN.pattern}|{PIECE.pattern}")


class MergeWay(NamedTuple):
    """A way to merge, in words."""

    name: Strategy
    title: str
    words: str


WAYS = (
    MergeWay("auto", "Merge", "with all its commits; only if it is clean"),
    MergeWay("squash", "Squash", "as one commit on the branch"),
    MergeWay("rebase", "Rebase", "its commits one by one on top of the branch"),
    MergeWay("ours", "Merge, the branch wins", "where both changed the same lines, the branch's stay"),
    MergeWay("theirs", "Merge, the run wins", "where both changed the same lines, the run's come"),
    MergeWay("apply", "Apply to the checkout", "as changes that are not committed; no branch moves"),
    MergeWay("branch", "Only a new branch", "with the merged result; the target stays where it is"),
    MergeWay("pr", "Pull request", "pushed, and a draft opened on the forge"),
)


@router.get("/runs/{run}/merge")
async def look(run: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    merging = site.running_merges.of(site.engine.find(run))
    is_going = merging is not None and not merging.over  # asked first: a merge is stored before it is over
    document = await site.engine.merges.add_git_state(site.engine.show(run))
    if is_going:
        return frame.show(request, caller, "merge_going.html", run=document, merging=merging)
    undoing = await site.engine.merges.undo_preview(document.run) if document.merge.status == "merged" else None
    values = (
        {"preview": None, "trouble": None} if undoing else await _values(site, document, dict(request.query_params))
    )
    wanted = _request(document.run, dict(request.query_params))
    return frame.show(
        request, caller, "merge.html", run=document, merging=merging, undoing=undoing, ways=WAYS, wanted=wanted,
        **values,
        kept=[pair for pair in request.query_params.items() if pair[1] and PARTS.fullmatch(pair[0])],
        target=site.engine.merges.target(document.run) or "",
    )  # fmt: skip


@router.get("/runs/{run}/merge/preview")
async def preview(run: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    """The part that says what would happen, after something was chosen."""
    document = site.engine.show(run)
    values = await _values(site, document, dict(request.query_params))
    return frame.show(request, caller, "_merge.html", run=document, **values)


@router.post("/runs/{run}/merge")
async def merge(run: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Merge it. It continues while nobody looks; a conflict moves nothing and is settled on its own screen."""
    del caller
    name = site.engine.find(run)
    merging = await site.running_merges.begin(await _whole(site, _request(name, await form(request))))
    return frame.go_to(frame.merge_result_address(name, merging))


@router.get("/runs/{run}/merge/going")
async def merge_progress(run: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    """The part that says how far a merge is; once it is over, the screen that shows what came of it."""
    document = site.engine.show(run)
    merging = site.running_merges.of(document.run)
    if merging is None or merging.over:
        return frame.go_to(frame.merge_result_address(document.run, merging))
    return frame.show(request, caller, "_merge_progress.html", run=document, merging=merging)


@router.post("/runs/{run}/merge/undo")
async def undo(run: str, site: CurrentSite, caller: MergeCaller) -> Response:
    """Take it back: refs and files as they were."""
    del caller
    name = site.engine.find(run)
    await site.engine.merges.undo(name, Path(site.engine.show(name).repo), lambda _: None)
    return frame.go_to(f"/runs/{name}/merge")


async def _values(site: Site, run: Run, given: Mapping[str, str]) -> dict[str, object]:
    """Return what a merge would do, or why it cannot be."""
    found: Preview | None = None
    trouble: CorralError | None = None
    if run.status not in OPEN:
        try:
            found = await site.engine.merges.preview(await _whole(site, _request(run.run, given)))
        except RefusedRequest:
            raise
        except CorralError as error:
            trouble = error
    agents = {attempt.id: attempt.agent for node in run.nodes for attempt in node.attempts}
    return {"preview": found, "trouble": trouble, "agents": agents}


def _request(run: str, given: Mapping[str, str]) -> MergeRequest:
    """Read a form; nothing in it is taken on trust."""
    strategy = given.get("strategy") or "auto"
    if strategy not in STRATEGIES:
        raise RefusedRequest(422, "invalid", f"strategy: `{strategy}` is none", hint=", ".join(STRATEGIES))
    return MergeRequest(
        run=run,
        strategy=strategy,
        into=auth.vet_branch(given.get("into", "").strip() or None),
        pick=given.get("pick") or None,
        take=_takes(given),
        autostash=bool(given.get("autostash")),
        checks=not given.get("unchecked"),
    )


def _takes(given: Mapping[str, str]) -> tuple[FilePick, ...]:
    """Return what is taken: whole files (`attempt:path`), and pieces of files (`attempt:number:path`)."""
    found = [
        FilePick(path, who)
        for who, _, path in (value.partition(":") for key, value in given.items() if TAKEN.fullmatch(key))
        if path
    ]
    pieces: dict[tuple[str, str], list[int]] = {}
    for key, value in given.items():
        if PIECE.fullmatch(key) and value.count(":") >= 2:
            who, number, path = value.split(":", 2)
            pieces.setdefault((path, who), []).append(int(number) if number.isdecimal() else 0)
    found += [FilePick(path, who, tuple(numbers)) for (path, who), numbers in pieces.items()]
    auth.vet_paths(each.path for each in found)
    return tuple(found)


async def _whole(site: Site, request: MergeRequest) -> MergeRequest:
    """Take with a file that was renamed also that its old name is gone."""
    more: list[FilePick] = []
    for who in {each.who for each in request.take}:
        change = await site.engine.work.change(ChangeSelection(run=request.run, attempt=who))
        renamed = {each.path: each.old_path for each in change.files if each.kind == "renamed"} if change else {}
        whole = [each.path for each in request.take if each.who == who and not each.hunks]
        more += [FilePick(renamed[path], who) for path in whole if path in renamed]
    names = {each.path for each in request.take}
    kept = tuple(each for each in more if each.path not in names)
    return structs.replace(request, take=request.take + kept)
