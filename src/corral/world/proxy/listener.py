"""A door on a listening socket that was handed over: so many at once, none forever, all gone when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

from msgspec import Struct

from corral.world.proxy import http1
from corral.world.proxy.http1 import HttpRequest, IncompleteMessage, MalformedMessage

LINGER_SECONDS = 2.0  #: for an end that says and takes nothing
DRAIN_SECONDS = 30.0  #: for a client that still sends when it has its answer
DRAIN_BYTES = 64 << 20


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    most_connections: int = 256
    head_seconds: float = 30.0  #: for a whole request head
    connect_seconds: float = 30.0  #: for the look-up and the connection together
    idle_seconds: float = 900.0  #: without a byte either way


class RequestRefused(Exception):
    """What was asked for is not given: a status and one line that says why."""

    def __init__(self, status: int, words: str, *fields: tuple[str, str]) -> None:
        super().__init__(words)
        self.status, self.fields = status, fields


class Peer:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, failure: object, *_: object) -> None:
        if failure:
            self.writer.transport.abort()
        await self.close()

    def cut(self) -> None:
        """End so that the other side notices: with a reset."""
        raw: socket.socket | None = self.writer.get_extra_info("socket")
        if raw is not None and not self.writer.transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close, having said what there is to say; an end that does not listen is not waited for."""
        self.writer.close()
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            self.writer.transport.abort()


class ProxyClient(Peer):
    """Who came through the door."""

    answered = False  #: a status has been sent: too late for another

    async def request(self, seconds: float) -> HttpRequest | None:
        """Return what is asked for, None where nothing is."""
        try:
            async with asyncio.timeout(seconds):
                lines = await http1.read_head(self.reader)
        except TimeoutError:
            raise RequestRefused(408, "the request did not come to its end") from None
        return http1.request_of(lines) if lines is not None else None

    async def refuse(self, status: int, words: str, *fields: tuple[str, str]) -> None:
        """Answer with one line of plain text, unless an answer is on its way."""
        if self.answered:
            return
        self.answered = True
        body = f"corral: {words}\n".encode()
        head = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *fields]
        first = f"HTTP/1.1 {status} {'Refused' if status < 500 else 'Failed'}"
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self.send(http1.encode(first, [*head, ("Connection", "close")]) + body)

    async def linger(self) -> None:
        """Say that this is the end, and let the client be the first to close.

        Closing while it still sends would reset the connection, and take our answer with it: many clients send a whole
        body before they read.
        """
        loop, left = asyncio.get_running_loop(), DRAIN_BYTES
        latest = loop.time() + DRAIN_SECONDS
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS) as silence:
                if self.writer.can_write_eof() and not self.writer.is_closing():
                    self.writer.write_eof()
                while left > 0 and (piece := await self.reader.read(http1.PIECE_BYTES)):
                    left -= len(piece)
                    silence.reschedule(min(loop.time() + LINGER_SECONDS, latest))


class ProxyListener:
    """Lets clients in and sees to it that each gets an answer or an end."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[ProxyClient], Awaitable[None]],
        limits: ConnectionLimits,
        *,
        gateway: str,
    ) -> None:
        self._listener, self._answer, self._limits, self._gateway = listener, answer, limits, gateway
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def open(self) -> Self:
        self._listener.settimeout(0)
        self._server = await asyncio.start_server(self._on_connection, sock=self._listener, limit=http1.MOST_HEAD_BYTES)
        return self

    async def close(self) -> None:
        """End all that is open; the socket is closed too."""
        if self._server:
            self._server.close()
        for task in (ending := list(self._open)):
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._listener.close()

    @property
    def count(self) -> int:
        """How many are in."""
        return len(self._open)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(ProxyClient(reader, writer)))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, client: ProxyClient) -> None:
        try:
            if len(self._open) > self._limits.most_connections:
                await client.refuse(503, f"{self._gateway}: too many connections at once")
            else:
                await self._attend(client)
            await client.linger()
        except asyncio.CancelledError:
            client.writer.transport.abort()
            raise
        finally:
            await client.close()

    async def _attend(self, client: ProxyClient) -> None:
        try:
            await self._answer(client)
        except RequestRefused as refused:
            await client.refuse(refused.status, str(refused), *refused.fields)
        except MalformedMessage as malformed:
            await client.refuse(malformed.status, f"{self._gateway}: {malformed}")
        except TimeoutError:
            await client.refuse(504, f"{self._gateway}: nothing was heard for too long")
        except IncompleteMessage:
            await client.refuse(502, f"{self._gateway}: the connection was cut")
        except OSError as error:
            await client.refuse(502, f"{self._gateway}: {error.strerror or type(error).__name__}")


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Do several things at once until the first is over or fails; then the others end too."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ProxyEndpoint:
    """What answers behind a door, which is open as long as this is entered."""

    def __init__(self, door: ProxyListener) -> None:
        self._listener = door

    async def __aenter__(self) -> Self:
        await self._listener.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.close()

    @property
    def count(self) -> int:
        """How many connections are open."""
        return self._listener.count
