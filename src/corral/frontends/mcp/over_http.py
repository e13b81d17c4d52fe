"""The MCP server as an app of a web server, which says who asks: streamable HTTP, both eras of the protocol."""

from __future__ import annotations

from typing import cast

from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.frontends.mcp.permissions import Visitor
from corral.frontends.mcp.server import build
from corral.frontends.mcp.stdio import vet
from corral.frontends.mcp.stdio_runs import ClientRuns

VISITOR = "corral.visitor"  #: in the scope of a request: who it is from
JSON = "application/json"
IDENTITY = "corral.identity"  #: and what they are known by, as long as their token counts


def asgi(active: ClientRuns, path: str) -> Starlette:
    """Return the app. It checks no token and no Host: its mounter does, and enters its lifespan."""
    outside = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the Guard knows our names
    app = build(active, _visitor).streamable_http_app(streamable_http_path=path, transport_security=outside)
    app.add_middleware(AuthContextMiddleware)
    app.add_middleware(_IdentityMiddleware)  # the last that is added is the first that is asked
    return app


def _visitor(context: ServerRequestContext) -> Visitor:
    return cast("HTTPConnection", context.request).scope[VISITOR]


class _IdentityMiddleware:
    """Tells the SDK who asks, so that nobody continues what another has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=scope[IDENTITY], scopes=[]))
            if scope["method"] == "POST":
                body = await _body(receive)
                wrong = vet(body).refusal
                if wrong is not None:
                    answer = Response(wrong.model_dump_json(by_alias=True, exclude_unset=True), 400, None, JSON)
                    await answer(scope, receive, send)
                    return
                receive = _again(body, receive)
        await self._app(scope, receive, send)


async def _body(receive: Receive) -> bytes:
    """Read a body whole: the Guard has bounded it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what hands over a body that was read, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
