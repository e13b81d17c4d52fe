"""Frames between an engine and `corral host`: calls, their answers, and byte streams, all over one connection."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from corral.model.errors import BadRequest, CorralError, GitTrouble, MissingWorkspace, SetupFailed

T = TypeVar("T")
MOST_FRAME = 64 << 20
HEAD_BYTES = 4  #: the length of a frame, big-endian
WINDOW = 1 << 20  #: bytes of a stream that its sender may be ahead of its reader
PIECE = 128 << 10  #: bytes of a stream in one frame
MOST_STREAMS, MOST_CALLS = 2000, 500  #: open at once
MOST_WORDS = 2000  #: characters of an error that the other side sent
ERRORS: dict[str, type[CorralError]] = {
    each.__name__: each for each in (BadRequest, SetupFailed, GitTrouble, MissingWorkspace)
}


class MachineLost(CorralError):
    """The connection to a machine is gone, or was never there."""


class BrokenFrames(CorralError):
    """The other side does not speak our protocol."""


class CallFrame(Struct, frozen=True, tag="call", array_like=True):
    """A request for something, to be answered by its number."""

    number: int
    verb: str
    attempt: str  #: empty: it is about the machine
    body: Raw


class Answered(Struct, frozen=True, tag="answer", array_like=True):
    number: int
    body: Raw


class RefusalFrame(Struct, frozen=True, tag="refuse", array_like=True):
    number: int
    kind: str  #: the name of an error that both sides know; empty: any other
    message: str
    hint: str


class Opened(Struct, frozen=True, tag="open", array_like=True):
    """A stream of bytes, in both directions; the engine's numbers are even, the host's odd."""

    stream: int
    about: Raw


class PieceFrame(Struct, frozen=True, tag="piece", array_like=True):
    """Bytes of a stream; without any it is at its end."""

    stream: int
    data: bytes


class Room(Struct, frozen=True, tag="room", array_like=True):
    """So many more bytes of a stream may be sent."""

    stream: int
    count: int


class Cut(Struct, frozen=True, tag="cut", array_like=True):
    """A stream is over in both directions."""

    stream: int


Frame = CallFrame | Answered | RefusalFrame | Opened | PieceFrame | Room | Cut
_DECODER = msgspec.msgpack.Decoder(Frame)
_ENCODER = msgspec.msgpack.Encoder()


def encode_frame(frame: Frame) -> bytes:
    data = _ENCODER.encode(frame)
    if len(data) > MOST_FRAME:
        raise CorralError(f"a message of {len(data) >> 20} MB is more than a frame holds ({MOST_FRAME >> 20} MB)")
    return len(data).to_bytes(HEAD_BYTES) + data


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """Return the next frame; None at the end."""
    try:
        size = int.from_bytes(await reader.readexactly(HEAD_BYTES))
        if size > MOST_FRAME:
            raise BrokenFrames(f"a frame of {size} bytes came: this is not `corral host`")
        return _DECODER.decode(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BrokenFrames("the connection ended within a frame") from error
        return None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BrokenFrames(f"a frame came that cannot be read: {error}") from error


class ByteStream:
    """One stream of a connection, as one side holds it."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection, self.number = connection, number
        self._pieces, self._held = bytearray(), 0
        self._ended = self._closed = self._broken = False
        self._room, self._consumed = WINDOW, 0
        self._changed = asyncio.Event()

    async def read(self, most: int = PIECE) -> bytes:
        """Return what has come, at least one byte; nothing at the end. MachineLost where it broke off."""
        while not self._pieces:
            if self._ended:
                return b""
            if self._broken:
                raise MachineLost("the connection broke off")
            await self._wait()
        data = bytes(self._pieces[:most])
        del self._pieces[:most]
        self._consumed += len(data)
        if self._consumed >= WINDOW // 4 and not self._ended:
            count, self._consumed = self._consumed, 0
            await self._connection.send(Room(self.number, count))
        return data

    async def read_all(self, most: int) -> bytes:
        found = bytearray()
        while data := await self.read():
            found += data
            if len(found) > most:
                raise CorralError(f"more than {most} bytes came")
        return bytes(found)

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            while not self._room:
                self._check()
                await self._wait()
            self._check()
            count = min(self._room, PIECE, len(view))
            self._room -= count
            await self._connection.send(PieceFrame(self.number, bytes(view[:count])))
            view = view[count:]

    async def end(self) -> None:
        """Say that nothing more comes from here."""
        if not self._closed and not self._broken:
            self._closed = True
            await self._connection.send(PieceFrame(self.number, b""))
            self._forget()

    async def cut(self) -> None:
        """End it in both directions."""
        if not self._broken and not (self._ended and self._closed):
            self._broken = True
            self._connection.forget(self.number)
            with contextlib.suppress(CorralError, OSError):
                await self._connection.send(Cut(self.number))

    def _check(self) -> None:
        if self._broken or self._closed:
            raise MachineLost("the stream is closed")

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _forget(self) -> None:
        if self._ended and self._closed:
            self._connection.forget(self.number)

    # --- what the connection reports

    def take(self, data: bytes) -> None:
        if self._ended or len(self._pieces) + len(data) > 2 * WINDOW:
            raise BrokenFrames("a stream was sent more than there is room for")
        self._pieces += data
        self._ended = not data
        self._changed.set()
        self._forget()

    def grant(self, count: int) -> None:
        if not 0 < count <= WINDOW or self._room + count > 2 * WINDOW:
            raise BrokenFrames("a stream was given more room than there is")
        self._room += count
        self._changed.set()

    def break_off(self) -> None:
        self._broken = True
        self._changed.set()


class Connection:
    """One end of a connection: it calls, answers calls, and carries streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, first: int) -> None:
        """`first`: 0 at the engine, 1 at the host."""
        self._reader, self._writer, self._next = reader, writer, first
        self._sending = asyncio.Lock()
        self._calls: dict[int, asyncio.Future[Raw]] = {}
        self._streams: dict[int, ByteStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._parity = first % 2
        self.on_call: Callable[[CallFrame], Awaitable[object]] = _refuse_call
        self.on_stream: Callable[[ByteStream, Raw], Awaitable[None]] | None = None
        self.gone = asyncio.Event()
        self.reason = "the connection ended"

    async def serve(self) -> None:
        """Read frames until the connection ends; whatever waits for it then hears that it is gone."""
        try:
            while (frame := await read_frame(self._reader)) is not None:
                self._take(frame)
        except (CorralError, OSError) as error:
            self.reason = str(error) or self.reason
        finally:
            self.close()

    def close(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        for call in self._calls.values():
            if not call.done():
                call.set_exception(MachineLost(self.reason))
        for stream in self._streams.values():
            stream.break_off()
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    async def ask(self, verb: str, body: object = None, kind: type[T] = object, *, attempt: str = "") -> T:
        """Call the other side and return its answer as `kind`."""
        number = self._next = self._next + 2
        if self.gone.is_set():
            raise MachineLost(self.reason)
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            await self.send(CallFrame(number, verb, attempt, Raw(_ENCODER.encode(body))))
            raw = await answer
        finally:
            self._calls.pop(number, None)
        try:
            return msgspec.msgpack.decode(raw, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BrokenFrames(f"the answer to `{verb}` cannot be read: {error}") from error

    async def open(self, about: object) -> ByteStream:
        """Open a stream to the other side."""
        number = self._next = self._next + 2
        stream = self._streams[number] = ByteStream(self, number)
        await self.send(Opened(number, Raw(_ENCODER.encode(about))))
        return stream

    async def send(self, frame: Frame) -> None:
        if self.gone.is_set():
            raise MachineLost(self.reason)
        data = encode_frame(frame)
        try:
            async with self._sending:
                self._writer.write(data)
                await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise MachineLost(self.reason) from error

    def forget(self, stream: int) -> None:
        self._streams.pop(stream, None)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something for as long as the connection is there; no run's fence holds for it."""
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, frame: Frame) -> None:
        match frame:
            case CallFrame():
                if len(self._tasks) > MOST_CALLS + MOST_STREAMS:
                    raise BrokenFrames("too many calls at once")
                self.start(self._answer(frame))
            case Answered() | RefusalFrame():
                self._settle(frame)
            case Opened():
                if frame.stream % 2 == self._parity or frame.stream in self._streams:
                    raise BrokenFrames("a stream came under a number that is not the sender's")
                if len(self._streams) > MOST_STREAMS:
                    raise BrokenFrames("too many streams at once")
                stream = self._streams[frame.stream] = ByteStream(self, frame.stream)
                self.start(self._carry(stream, frame.about))
            case PieceFrame() | Room() | Cut():
                if stream := self._streams.get(frame.stream):  # else it is over already, here
                    _pass_on(stream, frame)
                if isinstance(frame, Cut):
                    self.forget(frame.stream)

    def _settle(self, frame: Answered | RefusalFrame) -> None:
        call = self._calls.get(frame.number)
        if call is None or call.done():
            return  # nobody waits for it any more
        if isinstance(frame, Answered):
            call.set_result(frame.body)
        else:
            kind = ERRORS.get(frame.kind, CorralError)
            call.set_exception(kind(frame.message[:MOST_WORDS], hint=frame.hint[:MOST_WORDS]))

    async def _answer(self, call: CallFrame) -> None:
        frame: Frame
        try:
            frame = Answered(call.number, Raw(_ENCODER.encode(await self.on_call(call))))
            encode_frame(frame)
        except CorralError as error:
            frame = RefusalFrame(call.number, type(error).__name__, str(error), error.hint)
        except Exception as error:  # noqa: BLE001 -- the caller hears of it; the others' attempts continue
            frame = RefusalFrame(call.number, "", f"{type(error).__name__}: {error}"[:MOST_WORDS], "")
        with contextlib.suppress(CorralError):
            await self.send(frame)

    async def _carry(self, stream: ByteStream, about: Raw) -> None:
        try:
            if self.on_stream is not None:
                await self.on_stream(stream, about)
        except (CorralError, OSError, msgspec.DecodeError):
            pass  # its other end learns of it by the cut
        finally:
            await stream.cut()


async def _refuse_call(call: CallFrame) -> object:
    raise BadRequest(f"nobody here answers `{call.verb[:40]}`")


def _pass_on(stream: ByteStream, frame: PieceFrame | Room | Cut) -> None:
    match frame:
        case PieceFrame():
            stream.take(frame.data)
        case Room():
            stream.grant(frame.count)
        case Cut():
            stream.break_off()


async def join_socket(stream: ByteStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes between a stream and a socket, in both directions, until both are at their end."""

    async def outward() -> None:
        while data := await reader.read(PIECE):
            await stream.write(data)
        await stream.end()

    async def inward() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.gather(*tasks)
    except (CorralError, OSError):
        pass  # one side broke off: so does the other
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await stream.cut()
        writer.close()
