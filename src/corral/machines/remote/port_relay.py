"""Listeners of this machine that stand for the ports of a box elsewhere: what answers those need not know."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corral.machines.frames import ByteStream, join_socket
from corral.world.process import ProcessStart


class PortRelay:
    """One private socket for each port; closed with the box."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="corral-")
        self._paths = {port: Path(self._folder.name, str(port)) for port in ports}

    def start(self) -> ProcessStart:
        """Return what a network is served by in the place of a process with a box of this machine."""
        return ProcessStart(argv=(), env={}, listeners=self._listen)

    async def _listen(self) -> list[socket.socket]:
        found: list[socket.socket] = []
        for path in self._paths.values():
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(path))
            listener.listen(64)
            listener.setblocking(False)  # noqa: FBT003
            found.append(listener)
        return found

    async def carry(self, port: int, stream: ByteStream) -> None:
        """Carry a connection that came from the box to whoever answers that port."""
        path = self._paths.get(port)
        if path is None:
            return
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(path)
            await join_socket(stream, reader, writer)

    def close(self) -> None:
        self._folder.cleanup()
