"""What many viewers get alike, written straight to their connections: framed once, not once for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SHORT, LONG = 126, 1 << 16  #: lengths at which a frame of a WebSocket has a longer head


class StreamConnection:
    """A connection on which a streamed answer has begun."""

    def __init__(self, transport: asyncio.Transport, held_up: Callable[[], bool]) -> None:
        self._transport, self._held_up = transport, held_up

    def write(self, frame: bytes) -> bool:
        """Write a frame, unless the reader is slow or gone: then send it the slow way, which waits for the reader."""
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
