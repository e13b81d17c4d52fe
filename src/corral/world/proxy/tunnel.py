"""Bytes in both directions, where only the first of them are looked at: the name that TLS asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.world.proxy.door import Peer
from corral.world.proxy.http1 import PIECE_BYTES

HANDSHAKE = 22
MOST_HELLO_BYTES = 64 * 1024

Check = Callable[[str], bool]  #: the name that TLS asks for -> may it


class WrongName(ConnectionError):
    """TLS asked for another server than the one the tunnel leads to."""


async def tunnel(client: Peer, upstream: Peer, check: Check, idle_seconds: float) -> None:
    """Carry bytes until both sides have said all, one fails, or nothing moves for too long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_seconds) as idle:

        def alive() -> None:
            idle.reschedule(loop.time() + idle_seconds)

        async def there() -> None:
            first = await _hello(client.reader, check)
            await _pump(client, upstream, alive, first)

        tasks = [asyncio.create_task(there()), asyncio.create_task(_pump(upstream, client, alive, b""))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: Peer, target: Peer, alive: Callable[[], None], first: bytes) -> None:
    piece = first or await source.reader.read(PIECE_BYTES)
    while piece:
        await target.send(piece)
        alive()
        piece = await source.reader.read(PIECE_BYTES)
    if target.writer.can_write_eof():
        target.writer.write_eof()


async def _hello(reader: asyncio.StreamReader, check: Check) -> bytes:
    """Read what a client says first; where that is TLS, all of its greeting, and ask about the name in it."""
    raw = await reader.read(PIECE_BYTES)
    if raw[:1] != bytes([HANDSHAKE]):
        return raw
    while (greeting := joined(raw)) is None:
        more = await reader.read(PIECE_BYTES)
        if not more or len(raw) > MOST_HELLO_BYTES:
            raise WrongName("a greeting that does not end")
        raw += more
    name = asked_name(greeting)
    if name is not None and not check(name):
        raise WrongName(name)
    return raw


def joined(raw: bytes) -> bytes | None:
    """Return the greeting that one or more TLS records hold; None where there is more to come."""
    greeting = b""
    while len(raw) >= 5 and raw[0] == HANDSHAKE:
        size = int.from_bytes(raw[3:5], "big")
        greeting += raw[5 : 5 + size]
        raw = raw[5 + size :]
        if len(greeting) >= 4 and len(greeting) >= 4 + int.from_bytes(greeting[1:4], "big"):
            return greeting
    return b"" if raw and raw[0] != HANDSHAKE else None


def asked_name(greeting: bytes) -> str | None:
    """Return the server's name that a TLS greeting asks for."""
    at = 4 + 2 + 32  # kind and size, version, random
    for width in (1, 2, 1):  # what was resumed, ciphers, compressions
        at += width + int.from_bytes(greeting[at : at + width], "big")
    at += 2
    while at + 4 <= len(greeting):
        kind, size = int.from_bytes(greeting[at : at + 2], "big"), int.from_bytes(greeting[at + 2 : at + 4], "big")
        if kind == 0:
            return greeting[at + 9 : at + 4 + size].decode("latin-1").lower().removesuffix(".")
        at += 4 + size
    return None
