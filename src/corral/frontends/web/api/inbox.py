"""What waits for a user."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.api.bodies import AnswerBody
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Caller, Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model import Entry, InboxEntry

router = APIRouter(tags=["inbox"])


@router.get("/inbox", responses=gives(list[InboxEntry]))
async def list_entries(site: CurrentSite, _: Reader, *, all: bool = False) -> Response:  # noqa: A002 -- as `inbox --all`
    """List what waits for a user; with `all` also answered entries."""
    return answer([InboxEntry.of(each) for each in site.engine.inbox.entries(whole=all)])


@router.post("/inbox/{number}", responses=gives(InboxEntry), openapi_extra=takes(AnswerBody))
async def give(number: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Answer an entry; an answer counts once. An answer that merges work or raises a limit needs that scope."""
    wanted = await body(request, AnswerBody)
    return answer(InboxEntry.of(await settle(site, caller, number, wanted.answer)))


async def settle(site: Site, caller: Caller, number: str, words: str) -> Entry:
    """Answer what waits, as far as this caller may."""
    caller.needs(site.engine.inbox.needs(number, words))
    return await site.engine.inbox.answer(number, words, caller.by)
