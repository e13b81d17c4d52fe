"""The client's side of stdio: one thread reads lines, one writes them, and what we ask waits for its answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import re
import threading

from msgspec import Raw

from corral.agents.formats.acp import wire
from corral.frontends.acp.streams import CHUNK, Streams

MOST_LINE = 64 << 20  #: bytes; of a longer line only its ends are kept
ENDS = 4096  #: bytes of each end of such a line: clients write the id of a request at one of them
MOST_WAITING = 4 << 20  #: bytes that a client has not read; above that, progress is left out until it has
FLUSH_SECONDS = 5.0
MEMBER = rb'\s*"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*'  #: of a message: a name with a text or a number
FIRST_MEMBERS = re.compile(rb"\s*\{(?:" + MEMBER + rb",)*")
LAST_MEMBERS = re.compile(rb"(?:," + MEMBER + rb")*\}\s*\Z")


class LongLine:
    """What is kept of a line that is too long to be read."""

    def __init__(self, head: bytes) -> None:
        self.head, self._tail = head[:ENDS], head[-ENDS:]

    def add(self, part: bytes) -> None:
        self._tail = (self._tail + part[-ENDS:])[-ENDS:]

    @property
    def request(self) -> bytes:
        """Return the id of the request that it is; null where none is found, as the protocol asks."""
        first = FIRST_MEMBERS.match(self.head)
        last = LAST_MEMBERS.search(self._tail)
        ends = b",".join(found.group() for found in (first, last) if found)
        members = dict(re.findall(MEMBER, ends))
        return members.get(b"id", b"null") if b"method" in members else b"null"


class RefusedByClient(Exception):
    """The client answered a request of ours with an error."""


class EditorConnection:
    """One client. Lines come in and go out in order, each whole."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | LongLine | None] = asyncio.Queue()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._sent = self._written = 0  #: bytes; each is counted by one thread alone
        self._number = 0
        self._asked: dict[int, asyncio.Future[Raw]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._writer = threading.Thread(target=self._write, daemon=True)

    def open(self) -> None:
        self._reader.start()
        self._writer.start()

    async def next_line(self) -> bytes | LongLine | None:
        """Return the next line, a `LongLine` for one that cannot be read, None at the end."""
        return await self._lines.get()

    def close(self) -> None:
        """Write what is left to write, unless the client does not read."""
        self._outgoing.put(None)
        self._writer.join(FLUSH_SECONDS)

    # --- out

    @property
    def is_congested(self) -> bool:
        """Whether the client reads slower than we write."""
        return self._sent - self._written > MOST_WAITING

    def send(self, line: wire.Line) -> None:
        encoded = line.text.encode() + b"\n"
        self._sent += len(encoded)
        self._outgoing.put(encoded)

    def notify(self, method: str, parameters: dict[str, object]) -> None:
        self.send(wire.notification(method, parameters))

    async def ask(self, method: str, parameters: dict[str, object]) -> Raw:
        """Send a request and wait for its answer; a caller that stops waiting withdraws it."""
        self._number += 1
        number = self._number
        future: asyncio.Future[Raw] = self._loop.create_future()
        self._asked[number] = future
        self.send(wire.request(number, method, parameters))
        try:
            return await future
        except asyncio.CancelledError:
            self.notify("$/cancel_request", {"requestId": number})
            raise
        finally:
            del self._asked[number]

    def take_answer(self, message: wire.Message) -> bool:
        """Hand an answer to the caller that waits for it; False: none does, it came twice or too late."""
        number = bytes(message.id).decode(errors="replace") if isinstance(message.id, Raw) else ""
        future = self._asked.get(int(number)) if number.isdecimal() and len(number) < 20 else None
        if future is None or future.done():
            return False
        if message.error is not None:
            future.set_exception(RefusedByClient(message.error.message))
        else:
            future.set_result(message.result)
        return True

    # --- threads

    def _read(self) -> None:
        lines = LineBuffer()
        chunk = self._streams.buffer
        while True:
            for line in lines.feed(chunk):
                self._hand_over(line)
            try:
                chunk = os.read(self._streams.read_from, CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                self._hand_over(None)
                return

    def _hand_over(self, line: bytes | LongLine | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def _write(self) -> None:
        while (line := self._outgoing.get()) is not None:
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._streams.write_to, left) :]
            except OSError:
                self._hand_over(None)  # nobody reads: as good as gone
                return
            self._written += len(line)


class LineBuffer:
    """Bytes cut into lines; the start of a line that never ends is what is left when the client closes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._long: LongLine | None = None

    def feed(self, chunk: bytes) -> list[bytes | LongLine]:
        """Return the lines that are whole now."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | LongLine] = []
        for part in ended:
            self._add(part)
            lines.append(self._long or b"".join(self._parts))
            self._parts, self._size, self._long = [], 0, None
        self._add(rest)
        return [line for line in lines if isinstance(line, LongLine) or line.strip()]

    def _add(self, part: bytes) -> None:
        if self._long is not None:
            self._long.add(part)
        elif part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > MOST_LINE:
                self._long, self._parts = LongLine(b"".join(self._parts)), []
