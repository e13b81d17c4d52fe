"""What is in conflict: base, ours and theirs beside each other; settled file by file, or by an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, cast, get_args

from fastapi import APIRouter, Query
from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import MergeCaller, Reader, form
from corral.frontends.web.pages import diff_html, frame
from corral.frontends.web.problems import RefusedRequest
from corral.frontends.web.running_merges import RunningMerge
from corral.model import OPEN
from corral.model.errors import CorralError
from corral.model.merge import ConflictedFile, Conflicts, MergeRequest, Side, Version

router = APIRouter()
MOST_FILES = 50  #: shown at once; what is settled makes room for others
MOST_TRIES = 10
Name = Annotated[str, Query(max_length=200)]
#: What happened, by git's name for it; of others git's own words are shown.
KINDS = {
    "contents": "both changed the same lines",
    "add/add": "both added it, each with another content",
    "modify/delete": "one side changed it, the other deleted it",
    "rename/delete": "one side renamed it, the other deleted it",
    "rename/rename": "both renamed it, to different names",
    "binary": "both changed it, and it is not text",
    "submodule": "both moved the submodule",
}


class Column(Struct, frozen=True, kw_only=True):
    """A file as one side has it."""

    side: Side
    title: str
    version: Version | None
    lines: Markup | None


class ConflictView(Struct, frozen=True, kw_only=True):
    """A file in conflict as the screen shows it."""

    file: ConflictedFile
    shown: str
    columns: tuple[Column, ...]
    text: str | None  #: to begin with, for a content of its own
    words: str


@router.get("/runs/{run}/conflicts")
async def look(run: str, request: Request, site: CurrentSite, caller: Reader, into: Name = "") -> Response:
    document = site.engine.show(run)
    found: Conflicts | None = None
    trouble: CorralError | None = None
    if document.status not in OPEN:
        try:
            found = await site.engine.merges.conflicts(document.run, auth.vet_branch(into or None))
        except RefusedRequest:
            raise
        except CorralError as error:
            trouble = error
    files = found.conflicts[:MOST_FILES] if found else ()
    agents = [each.name for each in await site.engine.list_agents(strict=False) if each.program]
    return frame.show(
        request, caller, "conflicts.html",
        run=document, conflicts=found, trouble=trouble, agents=agents, settling=_settling(site, document.run),
        files=[await asyncio.to_thread(_conflict_view, each, found) for each in files] if found else [],
    )  # fmt: skip


@router.get("/runs/{run}/conflicts/agent")
async def at_work(run: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    """The part that says how far an agent is."""
    document = site.engine.show(run)
    return frame.show(request, caller, "_settling.html", run=document, settling=_settling(site, document.run))


@router.post("/runs/{run}/conflicts")
async def settle(run: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Keep what was chosen, and merge it as soon as nothing is in conflict any more."""
    del caller
    name = site.engine.find(run)
    merging = await site.running_merges.begin(_request(name, await form(request)))
    return frame.go_to(frame.merge_result_address(name, merging))


@router.post("/runs/{run}/conflicts/agent")
async def hand_over(run: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Have an agent settle it, in a run of its own; this continues while nobody looks."""
    caller.needs("run")
    name, given = site.engine.find(run), await form(request)
    agent = given.get("agent", "").strip()
    if not agent:
        raise RefusedRequest(422, "invalid", "which agent?", hint="name one")
    tries = given.get("tries", "3")
    request_ = MergeRequest(
        run=name,
        into=auth.vet_branch(given.get("into") or None),
        resolve_with=agent,
        tries=int(tries) if tries.isdecimal() and 1 <= int(tries) <= MOST_TRIES else 3,
    )
    await site.running_merges.begin(request_)
    return frame.go_to(f"/runs/{name}/conflicts")


@router.post("/runs/{run}/conflicts/abort")
async def abort(run: str, site: CurrentSite, caller: MergeCaller) -> Response:
    """Give the merge up; nothing was ever moved."""
    del caller
    document = site.engine.merges.abort(run)
    return frame.go_to(f"/runs/{document.run}/merge")


def _settling(site: Site, run: str) -> RunningMerge | None:
    """Return what an agent does, or did, about the conflicts of a run."""
    merging = site.running_merges.of(run)
    return merging if merging and merging.agent else None


def _request(run: str, given: Mapping[str, str]) -> MergeRequest:
    """Read the form: for each file a side, or a text of its own; what nothing was chosen for stays in conflict."""
    sides: list[tuple[str, Side]] = []
    texts: list[tuple[str, str]] = []
    for key, path in given.items():
        number = key.removeprefix("path-")
        choice = given.get(f"choice-{number}") if number != key else None
        if choice in get_args(Side):
            sides.append((path, cast("Side", choice)))
        elif choice == "text":
            text = given.get(f"text-{number}", "")  # browsers send every line end as two letters
            texts.append((path, text if given.get(f"feeds-{number}") else text.replace("\r\n", "\n")))
    auth.vet_paths(path for path, _ in (*sides, *texts))
    return MergeRequest(
        run=run,
        into=auth.vet_branch(given.get("into") or None),
        resolve=tuple(sides),
        texts=tuple(texts),
        seen=given.get("seen") or None,
        checks=not given.get("unchecked"),
        autostash=bool(given.get("autostash")),
    )


def _conflict_view(file: ConflictedFile, found: Conflicts) -> ConflictView:
    one, other = found.between or (found.into, "the run")
    base = file.base.text if file.base else None
    sides: tuple[tuple[Side, str, Version | None], ...] = (
        ("base", "before both", file.base),
        ("ours", f"what {one} has", file.ours),
        ("theirs", f"what {other} brings", file.theirs),
    )
    columns = tuple(
        Column(side=side, title=title, version=version, lines=_lines(file.path, side, version, base))
        for side, title, version in sides
    )
    versions = (file.merged, file.ours, file.theirs)
    text = next((version.text for version in versions if version and version.text is not None), None)
    return ConflictView(
        file=file,
        shown=diff_html.safe_path(file.path),
        columns=columns,
        text=text,
        words=KINDS.get(file.kind) or file.words,
    )


def _lines(path: str, side: str, version: Version | None, base: str | None) -> Markup | None:
    if version is None or version.text is None:
        return None
    return diff_html.alone(path, version.text, None if side == "base" else base)
