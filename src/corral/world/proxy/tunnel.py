"""Bytes in both directions, where only the first are looked at: the server that TLS, plain HTTP or git asks for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Protocol

from corral.world.proxy import first_words, http1
from corral.world.proxy.first_words import Ahead, Check, WrongServer
from corral.world.proxy.http1 import PIECE_BYTES, Malformed
from corral.world.proxy.listener import Peer

SWITCHED = re.compile(rb"HTTP/1\.[01] 101\b")
PACKET = re.compile(rb"[0-9a-f]{4}")  #: the size of a packet of git
STATUS_BYTES = 12  #: `HTTP/1.1 101`


class _Source(Protocol):
    async def read(self, n: int) -> bytes: ...


class _Answer:
    """What a server says, and how that began."""

    def __init__(self, reader: _Source) -> None:
        self._reader = reader
        self.start = b""
        self.began = asyncio.Event()

    async def read(self, n: int) -> bytes:
        piece = await self._reader.read(n)
        if not self.began.is_set():
            self.start += piece
            if len(self.start) >= STATUS_BYTES or not piece or PACKET.match(self.start):
                self.began.set()
        return piece


async def tunnel(client: Peer, upstream: Peer, check: Check | None, idle_seconds: float) -> None:
    """Carry bytes until both sides have said all, one fails, or nothing moves for too long.

    Without a `check` nothing is looked at: the tunnel leads to an address.
    """
    loop = asyncio.get_running_loop()
    answer = _Answer(upstream.reader)
    async with asyncio.timeout(idle_seconds) as idle:

        def alive() -> None:
            idle.reschedule(loop.time() + idle_seconds)

        async def there() -> None:
            ahead = Ahead(client.reader)
            spoken = await first_words.kind(ahead) if check else "other"
            if check and spoken == "tls":
                await first_words.check_greeting(ahead, check)
            elif check and spoken == "http":
                await _one_request(ahead, upstream, check, answer, alive)
            elif check and spoken == "git":
                await _git_request(ahead, upstream, check, answer)
            await _pump(ahead, upstream, alive)

        tasks = [asyncio.create_task(there()), asyncio.create_task(_pump(answer, client, alive))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: _Source, target: Peer, alive: Callable[[], None]) -> None:
    while piece := await source.read(PIECE_BYTES):
        await target.send(piece)
        alive()
    if target.writer.can_write_eof():
        target.writer.write_eof()


async def _one_request(ahead: Ahead, upstream: Peer, check: Check, answer: _Answer, alive: Callable[[], None]) -> None:
    """Carry one plain request to the server it is checked for; a second could name another."""
    try:
        lines = await http1.read_head(ahead)
        if lines is None:
            return
        request = http1.request_of(lines)
        first_words.check_host(request, check)
        framing = http1.request_framing(request)
        upgrade = [("Upgrade", value) for value in http1.values(request.fields, "upgrade")]
        last = [*upgrade, ("Connection", "Upgrade" if upgrade else "close")]
        fields = [*http1.carried(request.fields), *http1.framing_fields(request), *last]
        await upstream.send(http1.encode(f"{request.method} {request.target} HTTP/1.{request.minor}", fields))
        async for piece in http1.read_body(ahead, framing):
            alive()
            await upstream.send(http1.framed(piece, chunked=framing == "chunked"))
    except Malformed as malformed:
        raise WrongServer(f"plain HTTP that cannot be checked: {malformed}", plain=True) from None
    if framing == "chunked":
        await upstream.send(b"0\r\n\r\n")
    if upgrade:
        await answer.began.wait()
        if SWITCHED.match(answer.start):
            return
    if ahead.held or await ahead.more():
        raise WrongServer("plain HTTP asked twice over one connection")


async def _git_request(ahead: Ahead, upstream: Peer, check: Check, answer: _Answer) -> None:
    """Carry the request of git://; what follows waits until a git server has answered: to others it could be HTTP."""
    await upstream.send(await first_words.git_request(ahead, check))
    await answer.began.wait()
    if not PACKET.match(answer.start):
        raise WrongServer("git:// was answered by something else than git")
