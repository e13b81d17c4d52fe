"""Writes what many viewers get alike straight to their connections: framed once, not once for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

KEY = "corral.wire"
SHORT, LONG = 126, 1 << 16  #: lengths at which a frame of a WebSocket has a longer head


class StreamConnection:
    """A connection on which a streamed answer has begun."""

    def __init__(self, transport: asyncio.Transport, held_up: Callable[[], bool]) -> None:
        self._transport, self._held_up = transport, held_up

    def write(self, frame: bytes) -> bool:
        """Write a frame, unless the reader is slow or gone: then it is told the long way, which waits for it."""
        if self._held_up() or self._transport.is_closing():
            return False
        self._transport.write(frame)
        return True


def chunk(data: bytes) -> bytes:
    """Return a chunk of an answer as it goes over the wire (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def message(text: bytes) -> bytes:
    """Return a message of a WebSocket as a server sends it: text, whole, not compressed (RFC 6455, 5.2)."""
    size = len(text)
    if size < SHORT:
        return b"\x81%c%b" % (size, text)
    if size < LONG:
        return b"\x81\x7e%b%b" % (size.to_bytes(2), text)
    return b"\x81\x7f%b%b" % (size.to_bytes(8), text)


def remember(scope: Scope, send: Send) -> None:
    """Keep the connection of a request at hand, where what it is answered is always framed alike."""
    sender = getattr(send, "__self__", None)
    if isinstance(sender, RequestResponseCycle) and scope["http_version"] == "1.1":
        flow = sender.flow
        scope[KEY] = StreamConnection(sender.transport, lambda: flow.write_paused)
    elif isinstance(sender, WebSocketsSansIOProtocol):
        talk = sender
        scope[KEY] = StreamConnection(talk.transport, lambda: talk.close_sent or not talk.writable.is_set())
