"""One path that answers JSON with JSON, for those who know its token: where an agent at work reaches its toolbox."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from corral.world.proxy import http1
from corral.world.proxy.http1 import HttpRequest
from corral.world.proxy.listener import ConnectionLimits, ProxyClient, ProxyEndpoint, ProxyListener, RequestRefused
from corral.world.proxy.secret import SecretValue

PATH = "/mcp"
MOST_BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0
SEND_SECONDS = 30.0  #: who does not take the answer in that time is cut off
QUICK = 100  #: requests that may come at once; beyond that each waits its turn
TURN_SECONDS = 0.02  #: of each turn, then
LIMITS = ConnectionLimits(most_connections=32, idle_seconds=600.0)

AnswerCall = Callable[[bytes], Awaitable[bytes | None]]


class RpcEndpoint(ProxyEndpoint):
    """Serves a listening socket; owns it. `answer` is given a body and returns one, or None to say nothing."""

    def __init__(
        self, listener: socket.socket, token: SecretValue, answer: AnswerCall, limits: ConnectionLimits = LIMITS
    ) -> None:
        self._token, self._answer, self._limits = token, answer, limits
        super().__init__(ProxyListener(listener, self._attend, limits, gateway="the toolbox"))
        self._free = 0.0  # when the next request of a flood may be answered

    async def _attend(self, client: ProxyClient) -> None:
        """Answer one request after the other, as long as the client stays."""
        while True:
            client.answered = False
            try:
                request = await client.request(self._limits.idle_seconds)
            except RequestRefused:
                return  # it kept quiet: nothing to refuse
            if request is None:
                return
            body = await self._let_in(client, request)
            await self._pace()
            stays = request.minor == 1 and "close" not in http1.words(request.fields, "connection")
            if request.method == "POST":
                answer = _encode_answer(await self._answer(body), stays=stays)
            else:
                answer = _no_stream(stays=stays)
            client.answered = True
            async with asyncio.timeout(SEND_SECONDS):
                await client.send(answer)
            if not stays:
                return

    async def _let_in(self, client: ProxyClient, request: HttpRequest) -> bytes:
        if request.target.partition("?")[0] != PATH:
            raise RequestRefused(404, "there is nothing here")
        given = http1.values(request.fields, "authorization")
        kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        if kind.lower() != "bearer" or not self._token.matches(token.strip()):
            raise RequestRefused(401, "this toolbox is not yours", ("WWW-Authenticate", "Bearer"))
        framing = http1.request_framing(request)
        if isinstance(framing, int) and framing > MOST_BODY_BYTES:
            raise RequestRefused(413, f"more than {MOST_BODY_BYTES >> 10} KB")
        if http1.words(request.fields, "expect") and framing and request.minor == 1:
            await client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in http1.read_body(client.reader, framing):
                body += piece
                if len(body) > MOST_BODY_BYTES:
                    raise RequestRefused(413, f"more than {MOST_BODY_BYTES >> 10} KB")
        return bytes(body)

    async def _pace(self) -> None:
        """Keep a flood from taking the engine's time from others."""
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now - QUICK * TURN_SECONDS) + TURN_SECONDS
        if self._free > now:
            await asyncio.sleep(self._free - now)


def _no_stream(*, stays: bool) -> bytes:
    """Answer who asks for a stream of what we say unasked: there is none.

    Every MCP client asks for one beside its first calls. The connection must stay open: clients on Bun (OpenCode) send
    the next call over it even where we say that it is closed, the call is lost, and with it the whole toolbox.
    """
    return http1.encode("HTTP/1.1 405 Method Not Allowed", [("Allow", "POST"), *_framing_fields(b"", stays=stays)])


def _framing_fields(body: bytes, *, stays: bool) -> list[tuple[str, str]]:
    return [("Content-Length", str(len(body))), ("Connection", "keep-alive" if stays else "close")]


def _encode_answer(told: bytes | None, *, stays: bool) -> bytes:
    fields = _framing_fields(told or b"", stays=stays)
    if told is None:
        return http1.encode("HTTP/1.1 202 Accepted", fields)
    return http1.encode("HTTP/1.1 200 OK", [("Content-Type", "application/json"), *fields]) + told
