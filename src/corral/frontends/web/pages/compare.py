"""Attempts side by side: the ranking with its reasons, two changes beside each other, and a user's choice."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.views.changes import ChangeSelection, FileHunks
from corral.engine.views.compare import ComparedAttempt, Comparison
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import MergeCaller, Reader, form
from corral.frontends.web.pages import diff_html, frame, text
from corral.model.merge import HunkedFile, Hunks

router = APIRouter()
PAGE = 60  #: files that are laid beside each other
MOST_TAKEN = 200  #: files among which parts are chosen here; an address cannot hold more
Name = Annotated[str, Query(max_length=200)]
Long = Annotated[str, Query(max_length=4096)]
Number = Annotated[int, Query(ge=0, le=100_000)]


class FileVersion(Struct, frozen=True, kw_only=True):
    """A file as one attempt has it."""

    attempt: str
    file: FileHunks
    address: str
    value: str  #: as the merge screen takes it


class ComparedFile(Struct, frozen=True, kw_only=True):
    """A file that at least one of the attempts changed."""

    shown: str
    plain: bool  #: its name can be sent in a form
    offers: dict[str, FileVersion]
    same: bool  #: all that changed it made the same of it
    path: str
    pieces: bool  #: both changed it as text: single pieces can be taken


class HunkView(Struct, frozen=True, kw_only=True):
    """A numbered piece of what an attempt changed in a file."""

    number: int
    lines: Markup


class HunksView(Struct, frozen=True, kw_only=True):
    """All pieces of one attempt's change of a file."""

    number: int
    attempt: str
    agent: str
    whole: str
    pieces: tuple[HunkView, ...]


@router.get("/runs/{run}/compare")
async def compare(
    run: str, request: Request, site: CurrentSite, caller: Reader, a: Name = "", b: Name = ""
) -> Response:
    document = site.engine.show(run)
    found = site.engine.work.compare(document.run)
    one, other = _two(found, a, b)
    chosen = [each for each in (one, other) if each]
    files = await _files(site, document.run, [each.attempt for each in chosen])
    return frame.show(
        request, caller, "compare.html",
        run=document, nodes=found.nodes, whys={node.id: node.why for node in document.nodes}, one=one, other=other,
        rivals=_with_work(found), files=files[:PAGE], count=len(files), taken=files[:MOST_TAKEN],
        revised={each.revises for node in found.nodes for each in node.attempts},
        takes_all=len(files) <= MOST_TAKEN, asked=site.engine.inbox.choices(document.run), meaning=text.GRADES_SAY,
    )  # fmt: skip


@router.post("/runs/{run}/compare/{attempt}")
async def pick(run: str, attempt: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Make an attempt the winner; what is merged follows."""
    document = await site.engine.work.choose(run, attempt, caller.by)
    then = (await form(request)).get("then", "")
    return frame.go_to(f"/runs/{document.run}/{'merge' if then == 'merge' else 'compare'}")


@router.get("/runs/{run}/compare/pieces")
async def pieces(  # noqa: PLR0913, PLR0917 -- one for each part of the address
    run: str, request: Request, site: CurrentSite, caller: Reader, path: Long, number: Number, a: Name, b: Name
) -> Response:
    """What two attempts changed in one file, in pieces that can be taken alone."""
    sides: list[HunksView] = []
    for place, attempt in enumerate((a, b)):
        for change in await site.engine.merges.hunks(run, attempt):
            sides += [_pieces(place, change, each) for each in change.files if each.path == path]
    return frame.show(request, caller, "_pieces.html", sides=sides, path=path, number=number)


def _pieces(place: int, change: Hunks, file: HunkedFile) -> HunksView:
    return HunksView(
        number=place,
        attempt=change.attempt,
        agent=change.agent,
        whole=file.whole,
        pieces=tuple(HunkView(number=each.number, lines=diff_html.piece(file.path, each.text)) for each in file.hunks),
    )


def _with_work(found: Comparison) -> list[ComparedAttempt]:
    return [each for node in found.nodes for each in node.attempts if each.files_changed]


def _two(found: Comparison, a: str, b: str) -> tuple[ComparedAttempt | None, ComparedAttempt | None]:
    """Return the two that were asked for; else the best two of the first node that has two."""
    rivals = {each.attempt: each for each in _with_work(found)}
    several = [node.attempts for node in found.nodes if sum(bool(each.files_changed) for each in node.attempts) > 1]
    firsts = [each for each in several[0] if each.files_changed] if several else list(rivals.values())
    firsts.sort(key=lambda each: each.place is None)  # rivals before what was revised
    one = rivals.get(a) or next((each for each in firsts if each.attempt != b), None)
    other = rivals.get(b) or next((each for each in firsts if one and each.attempt != one.attempt), None)
    return one, other


async def _files(site: Site, run: str, attempts: list[str]) -> list[ComparedFile]:
    """Return every file that one of them changed, with what each made of it."""
    offers: dict[str, dict[str, FileVersion]] = {}
    for attempt in attempts:
        looked = ChangeSelection(run=run, attempt=attempt)
        change = await site.engine.work.change(looked)
        for row in diff_html.rows(looked, change.files if change else ()):
            value = f"{attempt}:{row.file.path}"
            offers.setdefault(row.file.path, {})[attempt] = FileVersion(
                attempt=attempt, file=row.file, address=row.address, value=value
            )
    found = [_both(path, each) for path, each in sorted(offers.items())]
    return sorted(
        found, key=lambda each: len(each.offers) < len(attempts) or each.same
    )  # where they differ comes first


def _both(path: str, offers: dict[str, FileVersion]) -> ComparedFile:
    contents = {(each.file.new_blob, each.file.new_mode) for each in offers.values()}
    return ComparedFile(
        shown=diff_html.safe_path(path),
        plain=path.isprintable(),
        offers=offers,
        same=len(offers) > 1 and len(contents) == 1,
        path=path,
        pieces=len(contents) > 1
        and all(each.file.kind == "changed" and not each.file.binary for each in offers.values()),
    )
