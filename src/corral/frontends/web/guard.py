"""The outermost gate: Host, Origin, sizes and slowness are checked, and strict headers set, before any route runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from corral.frontends.web.app_state import ServerSettings
from corral.frontends.web.problems import problem
from corral.frontends.web.wire import StreamConnection

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADER_BYTES = 32 << 10
SILENCE_SECONDS = 2.0  #: of a client that has its answer before it sent its whole body
DRAIN_SECONDS = 30.0
DRAIN_BYTES = 64 << 20
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
log = logging.getLogger("corral.access")
CSP = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # `no-referrer` makes browsers send our own forms with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
KEY = "corral.wire"


class _Slow(Exception):
    """A body that does not come in time."""


class _Large(Exception):
    """A body over the limit."""


class RequestGuard:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings
        names = {*settings.hosts, *(f"{name}:{settings.port}" for name in (*LOOPBACK, *settings.hosts))}
        if settings.port in (80, 443):
            names |= set(LOOPBACK)
        self._hosts = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        scope.setdefault("state", {})["nonce"] = nonce = secrets.token_urlsafe(16)
        remember(scope, send)
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send, refusal)
            return
        body = _Body(receive, headers, self._settings)
        answered = _ResponseSender(send, self._headers(scope, nonce), body)
        started = time.perf_counter()
        try:
            if refusal is not None:
                await refusal(scope, receive, answered.send)
            else:
                await self._pass_on(scope, body, answered)
        finally:
            _log(scope, answered.status, started)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return problem(
                421, "host", "this server is not called so", "it answers to 127.0.0.1, or to --host-name NAME"
            )
        origin = headers.get("origin")
        if origin is not None and (scope["type"] == "websocket" or scope["method"] in UNSAFE):
            own = {f"{scheme}://{host}" for scheme in (("https",) if self._settings.secure else ("http", "https"))}
            if origin.lower() not in own:
                return problem(403, "origin", "another site may not do that here")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
            return problem(431, "too_large", f"the headers are larger than {HEADER_BYTES} bytes")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._settings.body_bytes:
            return problem(413, "too_large", f"the body is larger than {self._settings.body_bytes} bytes")
        return None

    async def _pass_on(self, scope: Scope, body: _Body, answered: _ResponseSender) -> None:
        try:
            await self._app(scope, body.receive, answered.send)
        except (_Slow, _Large) as trouble:
            if answered.status:
                raise
            slow = isinstance(trouble, _Slow)
            most = self._settings.body_bytes
            answer = (
                problem(408, "too_slow", "the body came too slowly", headers={"Connection": "close"})
                if slow
                else problem(413, "too_large", f"the body is larger than {most} bytes", headers={"Connection": "close"})
            )
            await answer(scope, body.receive, answered.send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send, refusal: Response | None) -> None:
        if refusal is None:
            await self._app(scope, receive, send)
            return
        await deny(send, refusal)

    def _headers(self, scope: Scope, nonce: str) -> dict[str, str]:
        found = {**HEADERS, "Content-Security-Policy": CSP.format(nonce=nonce)}
        if not scope["path"].startswith("/static/"):
            found["Cache-Control"] = "no-store"
        if self._settings.secure:
            found["Strict-Transport-Security"] = "max-age=31536000"
        return found


class _ResponseSender:
    """Adds our headers to what is answered, and remembers the status."""

    def __init__(self, send: Send, headers: dict[str, str], body: _Body) -> None:
        self._send, self._headers, self._body, self.status = send, headers, body, 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        if message["type"] != "http.response.body" or message.get("more_body") or not self._body.comes:
            await self._send(message)
            return
        # Closed while the client still sends, the connection would be reset, and the answer lost.
        await self._send({**message, "more_body": True})
        await self._body.drain()
        await self._send({"type": "http.response.body", "body": b""})


class _Body:
    """Hands over a body that may be neither too large nor too slow."""

    def __init__(self, receive: Receive, headers: Headers, settings: ServerSettings) -> None:
        self._receive, self._settings = receive, settings
        self._size, self._more = 0, True
        self._until = time.monotonic() + settings.body_seconds
        self._announced = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._awaits_consent = "expect" in headers  #: it comes only when it is asked for

    @property
    def comes(self) -> bool:
        """Whether the client is sending more of it."""
        return self._announced and self._more and not self._awaits_consent

    async def drain(self) -> None:
        """Let the client send the rest, within limits, and forget it."""
        left, latest = DRAIN_BYTES, time.monotonic() + DRAIN_SECONDS
        with contextlib.suppress(TimeoutError):
            while self._more and left > 0:
                async with asyncio.timeout(min(SILENCE_SECONDS, latest - time.monotonic())):
                    message = await self._receive()
                left -= len(message.get("body", b""))
                self._more = bool(message.get("more_body"))

    async def receive(self) -> Message:
        if not self._more:
            return await self._receive()
        self._awaits_consent = False
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise _Slow from None
        self._size += len(message.get("body", b""))
        self._more = bool(message.get("more_body"))
        if self._size > self._settings.body_bytes:
            raise _Large
        return message


async def deny(send: Send, answer: Response) -> None:
    """Refuse a WebSocket with a plain HTTP answer."""
    await send({"type": "websocket.http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})


def _log(scope: Scope, status: int, started: float) -> None:
    extra: dict[str, Any] = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "ms": round((time.perf_counter() - started) * 1000, 2),
        "token": scope.get("corral.caller"),
    }
    if run := scope.get("path_params", {}).get("run"):
        extra["run"] = run
    log.info("%s %s %s", scope["method"], scope["path"], status, extra=extra)


def remember(scope: Scope, send: Send) -> None:
    """Keep the connection of a request at hand, where what it is answered is always framed alike."""
    sender = getattr(send, "__self__", None)
    if isinstance(sender, RequestResponseCycle) and scope["http_version"] == "1.1":
        flow = sender.flow
        scope[KEY] = StreamConnection(sender.transport, lambda: flow.write_paused)
    elif isinstance(sender, WebSocketsSansIOProtocol):
        talk = sender
        scope[KEY] = StreamConnection(talk.transport, lambda: talk.close_sent or not talk.writable.is_set())
