"""What a run changed: its files as a tree, their lines side by side."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from corral.engine.views.changes import ChangeSelection, Fold
from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader
from corral.frontends.web.pages import diff_html, frame
from corral.frontends.web.pages.review import review_view
from corral.model import Run

router = APIRouter()
PAGE = 100  #: files on one screen
Name = Annotated[str, Query(max_length=200)]
Number = Annotated[int, Query(ge=0, le=10_000_000)]


@router.get("/runs/{run}/diff")
async def diff(  # noqa: PLR0913, PLR0917 -- one for each part of the address
    run: str, request: Request, site: CurrentSite, caller: Reader,
    attempt: Name = "", against: Name = "", q: Name = "", page: Number = 0,
) -> Response:  # fmt: skip
    """The change of an attempt, or what would be merged of the whole run; or how one attempt differs from another."""
    document = site.engine.show(run)
    looked = _selection(site, run, attempt, against)
    change = await site.engine.work.change(looked) if any(node.attempts for node in document.nodes) else None
    found = [each for each in change.files if q.lower() in each.path.lower()] if change else []
    first = min(page, max(0, len(found) - 1) // PAGE) * PAGE
    rows = diff_html.rows(looked, found[first : first + PAGE], first)
    part = request.headers.get("hx-target") == "files"
    return frame.show(
        request, caller, "_diff.html" if part else "diff.html",
        run=document, change=change, rows=rows, tree=diff_html.tree(rows), found=len(found), first=first, q=q,
        looked=looked, page=first // PAGE, size=PAGE, attempts=with_work(document), query=diff_html.query,
        review=review_view(document),
    )  # fmt: skip


@router.get("/runs/{run}/diff/file")
async def file(
    run: str, request: Request, site: CurrentSite, caller: Reader, attempt: Name = "", against: Name = ""
) -> Response:
    """The lines of one file."""
    looked = _selection(site, run, attempt, against)
    change = await site.engine.work.changed_file(looked, *_names(request))
    lines = await asyncio.to_thread(diff_html.file_html, looked, change)
    return frame.show(
        request, caller, "_file.html", change=change, lines=lines, notes=diff_html.rows(looked, [change.file])[0].notes
    )


@router.get("/runs/{run}/diff/lines")
async def lines(  # noqa: PLR0913, PLR0917
    run: str, request: Request, site: CurrentSite, _: Reader, at: Number, to: Number, count: Number,
    attempt: Name = "", against: Name = "",
) -> Response:  # fmt: skip
    """Lines that were folded."""
    looked = _selection(site, run, attempt, against)
    names = _names(request)
    now = min(count, diff_html.MOST_FOLD)
    change = await site.engine.work.folded_lines(looked, names, Fold(old=at, new=to, count=now))
    left = Fold(old=at + now, new=to + now, count=count - now) if count > now else None
    return HTMLResponse(await asyncio.to_thread(diff_html.unfolded_html, looked, change, left))


def _names(request: Request) -> tuple[str, str]:
    """Return the new and the old name of a file; they only ever reach git, and only within the repository."""
    names = diff_html.query_value(request, "path"), diff_html.query_value(request, "old")
    auth.vet_paths(names)
    return names


def _selection(site: Site, run: str, attempt: str, against: str) -> ChangeSelection:
    named = [site.engine.work.changed_by(run, each).id if each else None for each in (attempt, against)]
    return ChangeSelection(run=site.engine.find(run), attempt=named[0], against=named[1])


def with_work(run: Run) -> list[tuple[str, str, str]]:
    """Return the attempts that changed something: id, agent, and what to call them."""
    return [
        (
            attempt.id,
            attempt.agent,
            f"{attempt.agent} · {attempt.id.rpartition('-')[2]}" + (" · chosen" if attempt.id == node.winner else ""),
        )
        for node in run.nodes
        for attempt in node.attempts
        if attempt.commit
    ]


# --- artifacts

MOST_SHOWN_BYTES = 2 << 20
IMAGES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


@router.get("/runs/{run}/artifacts/{name:path}")
async def artifact(run: str, name: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Show a named file: text, an image, or HTML in a frame that runs nothing; all is an agent's work."""
    found, content = site.engine.work.artifact(run, name)
    image = next((kind for sign, kind in IMAGES.items() if content.startswith(sign)), None)
    shown = content if len(content) <= MOST_SHOWN_BYTES else b""
    is_text = b"\0" not in shown[:8000]
    return frame.show(
        request, caller, "artifact.html",
        run=run, artifact=found, large=not shown and bool(content),
        image=f"data:{image};base64,{base64.b64encode(shown).decode()}" if image and shown else None,
        page=shown.decode(errors="replace") if is_text and found.path.endswith((".html", ".htm")) else None,
        text=shown.decode(errors="replace") if is_text and not image else None,
    )  # fmt: skip
