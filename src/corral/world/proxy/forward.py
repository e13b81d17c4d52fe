"""A port of this machine's own loopback, shown in a box on the same port: what a person named, whatever it speaks."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

PIECE = 1 << 16
MOST = 256  #: connections at once


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
            pass  # one side is gone, and with it the other's reason to go on: the group has ended both
        finally:
            back.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE):
        target.write(piece)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()
