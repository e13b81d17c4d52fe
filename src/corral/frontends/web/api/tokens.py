"""Tokens: who may use this server, and for what."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.tokens import IssuedToken
from corral.frontends.web.api.bodies import NewToken
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Admin, Reader
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model.server import Token

router = APIRouter(tags=["tokens"])


@router.get("/tokens", responses=gives(list[Token]))
async def list_tokens(site: CurrentSite, _: Admin) -> Response:
    """List tokens."""
    return answer(site.engine.access.tokens())


@router.get("/tokens/me", responses=gives(Token))
async def me(caller: Reader) -> Response:
    """Show the name and scopes of this token."""
    return answer(caller.token)


@router.post("/tokens", status_code=201, responses=gives(IssuedToken, 201, "Made."), openapi_extra=takes(NewToken))
async def create(request: Request, site: CurrentSite, _: Admin) -> Response:
    """Create a token. Only this answer shows its secret."""
    wanted = await body(request, NewToken)
    return answer(site.engine.access.create(wanted.name, wanted.scopes), 201)


@router.delete("/tokens/{token}", status_code=204)
async def revoke(token: str, site: CurrentSite, _: Admin) -> Response:
    """Revoke a token."""
    site.engine.access.revoke(token)
    return Response(status_code=204)
