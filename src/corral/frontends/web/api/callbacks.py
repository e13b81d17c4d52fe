"""Callbacks of runs: the address that a run calls, and the secret that signs it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Admin, Runner
from corral.frontends.web.bodies import answer, body, gives, takes

router = APIRouter(tags=["webhooks"])


class CallbackBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=8, max_length=2000)]


class CallbackView(Struct, frozen=True, kw_only=True):
    run: str
    state: str  #: asked, waiting, delivered, dead


class CallbackSecret(Struct, frozen=True, kw_only=True):
    secret: str


@router.post(
    "/runs/{run}/callback", status_code=202, responses=gives(CallbackView, 202, "It will be called."),
    openapi_extra=takes(CallbackBody),
)  # fmt: skip
async def ask_callback(run: str, request: Request, site: CurrentSite, _: Runner) -> Response:
    """Have a run call an address once when it is over or waits for an answer, also after an earlier callback."""
    wanted = await body(request, CallbackBody)
    asked = site.engine.callbacks.ask(run, wanted.url)
    return answer(CallbackView(run=asked.run, state=asked.state), 202)


@router.get("/callbacks/secret", responses=gives(CallbackSecret))
async def show_callback_secret(site: CurrentSite, _: Admin) -> Response:
    """Show the secret that signs all callbacks of this server, as `corral token callback` does."""
    return answer(CallbackSecret(secret=site.engine.callbacks.secret()))
