"""Writes what many viewers get alike straight to their connections: framed once, not once for each of them."""

from __future__ import annotations

import asyncio

from starlette.types import Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

KEY = "corral.wire"


class Wire:
    """A connection on which a streamed answer has begun."""

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport, self._flow = transport, flow

    def write(self, frame: bytes) -> bool:
        """Write a frame, unless the reader is slow or gone: then it is told the long way, which waits for it."""
        if self._flow.write_paused or self._transport.is_closing():
            return False
        self._transport.write(frame)
        return True


def frame(data: bytes) -> bytes:
    """Return a chunk of an answer as it goes over the wire (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def remember(scope: Scope, send: Send) -> None:
    """Keep the connection of a request at hand, where its answer will be sent in chunks."""
    cycle = getattr(send, "__self__", None)
    if isinstance(cycle, RequestResponseCycle) and scope["http_version"] == "1.1":
        scope[KEY] = Wire(cycle.transport, cycle.flow)
