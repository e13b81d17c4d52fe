"""What passes to and from a program: lines of any length, words for it, all it prints."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from corral.model.errors import CorralError

MOST_LINE = 16 << 20  #: a longer line is cut; the raw log still has all of it


class LineSplitter:
    """Cuts bytes into lines and never keeps more than MOST_LINE of one."""

    def __init__(self) -> None:
        self._part = bytearray()
        self._cut = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bool]]:
        lines: list[tuple[bytes, bool]] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._keep(piece)
            lines.append((bytes(self._part), self._cut))
            self._part.clear()
            self._cut = False
        self._keep(rest)
        return lines

    def last(self) -> list[tuple[bytes, bool]]:
        return [(bytes(self._part), self._cut)] if self._part else []

    def _keep(self, piece: bytes) -> None:
        room = MOST_LINE - len(self._part)
        self._cut = self._cut or len(piece) > room
        self._part += piece[:room]


async def lines_of(
    stream: asyncio.StreamReader | None,
    name: str,
    hear: Callable[[int], None],
    heard: Callable[[str, bytes, bool], None] | None,
    raw: Callable[[str, bytes], None],
) -> None:
    """Read a stream to its end: `raw` gets every byte, `heard` each line, `hear` how much came.

    Without `heard` nothing is cut into lines: a program may print millions of them.
    """
    if stream is None:
        return
    lines = LineSplitter() if heard else None
    while chunk := await stream.read(1 << 18):
        hear(len(chunk))
        raw(name, chunk)
        if lines and heard:
            for line, cut in lines.feed(chunk):
                heard(name, line, cut)
        await asyncio.sleep(0)  # a program that never pauses must not starve the others
    if lines and heard:
        for line, cut in lines.last():
            heard(name, line, cut)


async def feed(
    process: asyncio.subprocess.Process, data: bytes | None, words: asyncio.Queue[bytes | None] | None
) -> None:
    """Write a program's first input, and then whatever comes besides, until that ends."""
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while data is not None:
            process.stdin.write(data)
            await process.stdin.drain()
            data = await words.get() if words else None
        process.stdin.close()
        await process.stdin.wait_closed()


async def all_of(stream: asyncio.StreamReader | None, most: int, sink: Callable[[bytes], object] | None) -> bytes:
    """Read a stream to its end; more than `most` is an error, never a cut."""
    kept = bytearray()
    while stream and (chunk := await stream.read(1 << 18)):
        if sink:
            sink(chunk)
            continue
        kept += chunk
        if len(kept) > most:
            raise CorralError(f"a program printed more than {most >> 20} MB")
    return bytes(kept)
