"""Authentication of callers: a bearer token, or the cookie of a browser that showed one, with a CSRF token."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from corral.engine.tokens import csrf_of
from corral.frontends.web.app_state import Site, site_of
from corral.frontends.web.caller import Caller
from corral.frontends.web.problems import RefusedRequest
from corral.model.server import AccessScope

COOKIE = "corral_login"
SAFE = ("GET", "HEAD", "OPTIONS")
HINT = "Authorization: Bearer TOKEN; make one: corral token new"


def identify(connection: HTTPConnection) -> Caller:
    """Find out who asks; raise 401 if nobody we know."""
    site = site_of(connection)
    address = connection.client.host if connection.client else "-"
    header = connection.headers.get("authorization")
    cookie = connection.cookies.get(COOKIE)
    if header is None and cookie is None:
        raise RefusedRequest(401, "no_token", "this needs a token", hint=HINT)
    if header is not None:
        kind, _, secret = header.partition(" ")
        token = site.engine.access.check(secret.strip()) if kind.lower() == "bearer" else None
        caller = Caller(token) if token else None
    else:
        token = site.engine.access.check_login(cookie or "")
        caller = Caller(token, cookie) if token else None
    if caller is None:  # who is known is never kept out by others of the same address, as behind one proxy
        site.limiter.count_wrong_secret(address)
        raise RefusedRequest(401, "bad_token", "this token is not known, or was revoked", hint=HINT)
    site.limiter.count_request(caller.token.id)
    connection.scope["corral.caller"] = caller.token.name
    return caller


def needs(scope: AccessScope) -> Callable[[Request], object]:
    """Return a dependency: whoever asks has this scope, and asks of their own free will."""

    async def check(request: Request) -> Caller:
        caller = identify(request)
        if caller.cookie is not None and request.method not in SAFE:
            await _check_csrf(request, caller.cookie)
        caller.needs(scope)
        return caller

    return check


Reader = Annotated[Caller, Depends(needs("read"))]


Runner = Annotated[Caller, Depends(needs("run"))]


MergeCaller = Annotated[Caller, Depends(needs("merge"))]


Admin = Annotated[Caller, Depends(needs("admin"))]


async def _check_csrf(request: Request, cookie: str) -> None:
    """A browser sends its cookie whoever asks it to; only our own page knows what belongs to it."""
    shown = request.headers.get("x-csrf-token")
    if shown is None and request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        shown = (await form(request)).get("csrf")
    if shown is None or not hmac.compare_digest(shown.encode(), csrf_of(cookie).encode()):
        raise RefusedRequest(403, "csrf", "the X-CSRF-Token is missing or wrong", hint="load the page again")


async def form(request: Request) -> dict[str, str]:
    """Read a form that a page of ours sent: the first value of each field."""
    text = (await request.body()).decode(errors="replace")
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}


def identify_socket(socket: WebSocket) -> Caller:
    """Find out who opens a WebSocket. By cookie the Origin must be ours: browsers let any page open one."""
    caller = identify(socket)
    if caller.cookie is not None and socket.headers.get("origin") is None:
        raise RefusedRequest(403, "origin", "a WebSocket with a cookie must name its Origin")
    return caller


def set_cookie(response: Response, cookie: str, site: Site) -> None:
    """Hand a browser its login: no script can read it, no other site can use it."""
    response.set_cookie(
        COOKIE, cookie, max_age=30 * 86_400, path="/", httponly=True, samesite="strict", secure=site.settings.secure
    )
