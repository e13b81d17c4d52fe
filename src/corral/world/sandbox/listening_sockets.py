"""The listening sockets of a box: bound inside, handed out to the engine, which answers from outside."""

from __future__ import annotations

import array
import asyncio
import socket

from corral.model.errors import CorralError


class Listeners:
    """Receives as many listening sockets as were asked for, in the order of their ports."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003

    async def sockets(self) -> list[socket.socket]:
        """Return the sockets once the box is up; they are the caller's to close. An error if it does not come up."""
        found: list[socket.socket] = []
        try:
            while len(found) < len(self._ports):
                found.append(await self._next())
        except BaseException:
            for each in found:
                each.close()
            raise
        return found

    async def _next(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                word, messages, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_reader(self._ours, lambda waiting=ready: waiting.done() or waiting.set_result(None))
                try:
                    await ready
                finally:
                    loop.remove_reader(self._ours)
                continue
            for _, kind, data in messages:
                if kind == socket.SCM_RIGHTS:
                    handed = socket.socket(fileno=array.array("i", data[:4])[0])
                    handed.setblocking(False)  # noqa: FBT003
                    return handed
            if not word:
                raise CorralError("the box ended before it listened")

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()


class LocalListeners:
    """The same where the box has no network of its own: bound here, on the machine's own loopback."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._bound: list[socket.socket] = []
        for port in ports:
            bound = socket.socket()
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._bound.append(bound)
            try:
                bound.bind(("127.0.0.1", port))
                bound.listen(512)
            except OSError as error:
                self.close()
                raise CorralError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from error
            bound.setblocking(False)  # noqa: FBT003

    async def sockets(self) -> list[socket.socket]:
        given, self._bound = self._bound, []
        return given

    def close(self) -> None:
        for each in self._bound:
            each.close()
