"""The inbox: everything that waits for a person, answered in place."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from corral.frontends.web.auth import Reader
from corral.frontends.web.site import Here

router = APIRouter()


@router.get("/inbox/count")
async def count(site: Here, _: Reader) -> Response:
    """How much waits, for the menu."""
    return PlainTextResponse(str(len(site.engine.inbox())))
