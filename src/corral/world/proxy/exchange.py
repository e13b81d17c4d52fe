"""One request over one connection: its body goes up, its answer comes back, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.world.proxy import http1
from corral.world.proxy.http1 import HttpRequest, HttpResponse, MalformedMessage
from corral.world.proxy.listener import Peer, ProxyClient, together

MOST_INTERIM = 10
MOST_AFTER_BYTES = 1 << 20


class AnswerFilter:
    """How an answer goes back: as it came."""

    same_length = True  #: its body is as long as it said
    whole = False  #: the answer came to its end

    def broke_off(self) -> None:
        """Note that the other side's connection failed before it answered."""

    def head(self, response: HttpResponse) -> tuple[str, list[tuple[str, str]]]:
        """Return the reason and the fields to pass on."""
        return response.reason, http1.end_to_end_fields(response.fields)

    def piece(self, data: bytes) -> bytes:
        return data

    def rest(self) -> bytes:
        """Return what `piece` held back."""
        return b""


async def carry(
    client: ProxyClient, request: HttpRequest, upstream: Peer, back: AnswerFilter, idle_seconds: float
) -> None:
    """Send a request's body up and its answer back; its head went up before. Over when either side leaves."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_seconds) as idle:

        def alive() -> None:
            idle.reschedule(loop.time() + idle_seconds)

        try:
            await together(_up(client, request, upstream, alive), _down(client, request, upstream, back, alive))
        finally:
            upstream.writer.transport.abort()  # one request for each connection: nothing more is said over it


async def _up(client: ProxyClient, request: HttpRequest, upstream: Peer, alive: Callable[[], None]) -> None:
    """Carry the body, then watch for the client to leave: it waits for an answer and has nothing more to say."""
    framing = http1.request_framing(request)
    chunked = framing == "chunked"
    if http1.words(request.fields, "expect") and framing and request.minor == 1:
        await client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    listens = True
    async for piece in http1.read_body(client.reader, framing):
        alive()
        listens = listens and await _try_send(upstream, http1.frame(piece, chunked=chunked))
    if chunked and listens:
        await _try_send(upstream, b"0\r\n\r\n")
    after = 0
    while piece := await client.reader.read(http1.PIECE_BYTES):
        after += len(piece)
        if after > MOST_AFTER_BYTES:
            raise MalformedMessage(400, "more than one request over one connection")


async def _try_send(upstream: Peer, data: bytes) -> bool:
    """Send; False where nobody takes it any more: its answer, given early, may still be read."""
    try:
        await upstream.send(data)
    except ConnectionError:
        return False
    return True


async def _down(
    client: ProxyClient, request: HttpRequest, upstream: Peer, back: AnswerFilter, alive: Callable[[], None]
) -> None:
    try:
        response = await _final(upstream)
    except ConnectionError:  # of the other side alone: a client that resets its connection is one that left
        back.broke_off()
        raise
    framing = http1.response_framing(response, request.method)
    reason, fields = back.head(response)
    bodiless = request.method == "HEAD" or response.status in {204, 304}
    sized = bodiless or (back.same_length and isinstance(framing, int))
    chunked = not sized and request.minor == 1
    if chunked:
        fields.append(("Transfer-Encoding", "chunked"))
    elif sized:
        fields += [("Content-Length", value) for value in http1.values(response.fields, "content-length")[:1]]
    alive()
    client.answered = True
    first = f"HTTP/1.1 {response.status} {reason}"
    await client.send(http1.encode(first, [*fields, ("Connection", "close")]))
    try:
        async for piece in http1.read_body(upstream.reader, framing, 502):
            alive()
            if data := back.piece(piece):
                await client.send(http1.frame(data, chunked=chunked))
    except BaseException:
        if not chunked and not sized:  # a plain end would look like the end of the body
            client.cut()
        raise
    back.whole = True
    rest = back.rest()
    await client.send((http1.frame(rest, chunked=chunked) if rest else b"") + (b"0\r\n\r\n" if chunked else b""))


async def _final(upstream: Peer) -> HttpResponse:
    for _ in range(MOST_INTERIM):
        lines = await http1.read_head(upstream.reader, 502)
        if lines is None:
            raise http1.IncompleteMessage("ended without an answer")
        response = http1.response_of(lines)
        if response.status >= 200:
            return response
        if response.status == 101:
            break
    raise MalformedMessage(502, "the other side never gave its answer")
