"""What one turn of an agent printed, in a file: it can be read again from any record on, also after an engine died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Literal

STDOUT, STDERR, ENDING, END = 1, 2, 3, 4
HEAD_BYTES = 5  #: of a record: its kind, then the length of its data
PIECE = 128 << 10
RecordKind = Literal[1, 2, 3, 4]


class Spool:
    """An append-only file of records, and whoever follows it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._changed = asyncio.Event()
        self.closed = False

    def write(self, kind: RecordKind, data: bytes) -> None:
        self._file.write(bytes([kind]) + len(data).to_bytes(4) + data)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self.closed = True
        self._file.close()
        self._changed.set()

    async def follow(self, offset: int) -> AsyncGenerator[bytes]:
        """Yield what stands in the file from an offset on, and what comes, to its end."""
        with self._path.open("rb") as file:
            file.seek(offset)
            while True:
                changed, closed = self._changed, self.closed
                while data := file.read(PIECE):
                    yield data
                if closed:
                    return
                await changed.wait()


class RecordReader:
    """Puts records together from the pieces in which they come."""

    def __init__(self, offset: int = 0) -> None:
        self._part, self.offset = bytearray(), offset  #: after the last whole record

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the records that are whole by now; each is counted in before it is passed on."""
        self._part += data
        while len(self._part) >= HEAD_BYTES:
            size = int.from_bytes(self._part[1:HEAD_BYTES])
            if len(self._part) - HEAD_BYTES < size:
                return
            kind, content = self._part[0], bytes(self._part[HEAD_BYTES : HEAD_BYTES + size])
            del self._part[: HEAD_BYTES + size]
            self.offset += HEAD_BYTES + size
            yield kind, content

    @property
    def waiting_bytes(self) -> int:
        """How much of a record has come that is not whole yet."""
        return len(self._part)
