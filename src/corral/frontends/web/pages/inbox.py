"""The inbox: everything that waits for a user, answered in place."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from corral.frontends.web.api.inbox import settle
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.pages.outcomes import outcome
from corral.model import Entry

router = APIRouter()
ANSWERED_MOST = 100
SHOWN_MOST = 30  #: entries that carry what their run came to


@router.get("/inbox")
async def inbox(request: Request, site: CurrentSite, caller: Reader) -> Response:
    part = request.headers.get("hx-target") == "entries"
    return frame.show(request, caller, "_inbox.html" if part else "inbox.html", **_values(site))


@router.get("/inbox/count")
async def count(site: CurrentSite, _: Reader) -> Response:
    """How much waits, for the menu."""
    return PlainTextResponse(str(len(site.engine.inbox.entries())))


@router.post("/inbox/{number}")
async def give(number: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Answer one; the agent that waits for it hears it at once."""
    text = (await form(request)).get("answer", "").strip()
    given = await settle(site, caller, number, text)
    return frame.show(request, caller, "_inbox.html", **_values(site, given))


def _agents(site: Site, entries: list[Entry]) -> dict[str, str]:
    """Return who made each attempt that can be chosen, as its button says it."""
    runs = dict.fromkeys(entry.run for entry in entries if entry.about == "choice")
    return {
        each.id: f"{each.agent} #{each.id.rpartition('-')[2]}"
        for run in runs
        for each in site.engine.history.attempts(run)
    }


def _values(site: Site, given: Entry | None = None) -> dict[str, object]:
    whole = site.engine.inbox.entries(whole=True)
    entries = site.engine.inbox.entries()
    return {
        "entries": entries,
        "outcomes": {
            run: outcome(site.engine.show(run), "")
            for run in dict.fromkeys(entry.run for entry in entries[:SHOWN_MOST])
        },
        "tasks": {entry.run: site.engine.history.flow_of(entry.run).title for entry in entries},
        "agents": _agents(site, entries),
        "answered": [entry for entry in whole if not entry.is_open][:ANSWERED_MOST],
        "given": given,
    }
