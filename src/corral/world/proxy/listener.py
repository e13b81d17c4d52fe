"""Doors of a box on listening sockets: bounded connections, a forwarded port, and one path that answers JSON."""

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
from corral.world.proxy.secret import SecretValue

LINGER_SECONDS = 2.0  #: for an end that says and takes nothing
DRAIN_SECONDS = 30.0  #: for a client that still sends when it has its answer
DRAIN_BYTES = 64 << 20
PIECE = 1 << 16
MOST = 256  #: connections at once


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


async def together(*works: Coroutine[Any, Any, None], until: str = asyncio.FIRST_COMPLETED) -> None:
    """Do several things at once until the first is over, or all are, or one fails; then the others end too."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=until)
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


class Forward:
    """Carries bytes between a listening socket of the box and a port of this machine; owns the socket."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener, self._port = listener, port
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, sock=self._listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- asyncio calls this in a task of its own
        self._busy.add(task)
        try:
            if len(self._busy) <= MOST:
                with contextlib.suppress(OSError):  # nobody listens there: the box sees its connection closed
                    await self._carry(reader, writer)
        finally:
            self._busy.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, back))
                both.create_task(_copy(there, writer))
        except* OSError:
            pass  # one side is gone, and with it the other's reason to continue: the group has ended both
        finally:
            back.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE):
        target.write(piece)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()


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


def _encode_answer(body: bytes | None, *, stays: bool) -> bytes:
    fields = _framing_fields(body or b"", stays=stays)
    if body is None:
        return http1.encode("HTTP/1.1 202 Accepted", fields)
    return http1.encode("HTTP/1.1 200 OK", [("Content-Type", "application/json"), *fields]) + body
