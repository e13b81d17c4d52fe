"""HTTP/1.1 heads and bodies, read strictly: what two readers could understand differently is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

MOST_HEAD_BYTES = 64 * 1024
MOST_FIELDS = 200
MOST_TRAILERS = 64
PIECE_BYTES = 64 * 1024

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
TARGET = re.compile(r"[\x21-\x7e]+")
CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
#: About one connection, not about what is carried over it.
HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-authentication-info",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
    }
)  # fmt: skip

Fields = Sequence[tuple[str, str]]
Framing = int | Literal["chunked", "close"]  #: a body's length, or how its end is known


class ByteReader(Protocol):
    """What a head or a body is read from."""

    async def read(self, n: int) -> bytes: ...
    async def readuntil(self, separator: bytes) -> bytes: ...


class MalformedMessage(Exception):
    """What came is no HTTP that we pass on."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class IncompleteMessage(ConnectionError):
    """The other side ended before it had said all."""


class HttpRequest(Struct, frozen=True):
    method: str
    target: str
    minor: int  #: of its version: HTTP/1.x
    fields: Fields


class HttpResponse(Struct, frozen=True):
    status: int
    reason: str
    minor: int
    fields: Fields


def values(fields: Fields, name: str) -> list[str]:
    return [value for key, value in fields if key.lower() == name]


def words(fields: Fields, name: str) -> list[str]:
    """Return the words of a field that is a list, in lower case."""
    return [word.strip().lower() for value in values(fields, name) for word in value.split(",") if word.strip()]


def end_to_end_fields(fields: Fields, *, but: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the fields to pass on; the length of a body is said anew."""
    dropped = {*HOP_BY_HOP, *words(fields, "connection"), "content-length", *but}
    return [(name, value) for name, value in fields if name.lower() not in dropped]


def encode(first: str, fields: Fields) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def read_head(reader: ByteReader, status: int = 400) -> list[str] | None:
    """Return the lines of a head, None where the other side left without a word; `status` is for one that is none."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial.strip():
            return None
        raise IncompleteMessage("ended within a head") from None
    except asyncio.LimitOverrunError:
        raise MalformedMessage(_too_large(status), f"a head of more than {MOST_HEAD_BYTES >> 10} KB") from None
    lines = raw[:-4].removeprefix(b"\r\n").decode("latin-1").split("\r\n")
    if any("\n" in line or "\r" in line or "\0" in line for line in lines):
        raise MalformedMessage(status, "a head with bare line ends")
    return lines


def request_of(lines: Sequence[str]) -> HttpRequest:
    match lines[0].split(" "):
        case [method, target, "HTTP/1.0" | "HTTP/1.1" as version] if TOKEN.fullmatch(method) and TARGET.fullmatch(
            target
        ):
            return HttpRequest(method, target, int(version[-1]), _fields(lines[1:], 400))
        case _:
            raise MalformedMessage(400, "no request of HTTP/1.1")


def response_of(lines: Sequence[str]) -> HttpResponse:
    found = re.fullmatch(r"HTTP/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?", lines[0])
    if not found:
        raise MalformedMessage(502, "no answer of HTTP/1.1")
    return HttpResponse(int(found[2]), found[3] or "", int(found[1]), _fields(lines[1:], 502))


def _too_large(status: int) -> int:
    return 431 if status == 400 else status


def _fields(lines: Sequence[str], status: int) -> list[tuple[str, str]]:
    if len(lines) > MOST_FIELDS:
        raise MalformedMessage(_too_large(status), f"more than {MOST_FIELDS} fields")
    fields: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        # A name with a blank behind it, and a line that is continued, are read differently by different servers.
        if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            raise MalformedMessage(status, "a field that is none")
        fields.append((name, value.strip(" \t")))
    return fields


def request_framing(request: HttpRequest) -> int | Literal["chunked"]:
    framing = _framing(request.fields, request.minor, 400)
    return 0 if framing == "close" else framing


def framing_fields(request: HttpRequest) -> list[tuple[str, str]]:
    """Say anew, to the next, how a request's body ends."""
    framing = request_framing(request)
    if framing == "chunked":
        return [("Transfer-Encoding", "chunked")]
    return [("Content-Length", str(framing))] if values(request.fields, "content-length") else []


def response_framing(response: HttpResponse, method: str) -> Framing:
    if method == "HEAD" or response.status in {204, 304}:
        return 0
    return _framing(response.fields, response.minor, 502)


def _framing(fields: Fields, minor: int, status: int) -> Framing:
    codings, lengths = values(fields, "transfer-encoding"), values(fields, "content-length")
    if codings:
        if lengths or minor == 0 or [coding.lower() for coding in codings] != ["chunked"]:
            raise MalformedMessage(status, "a body whose end can be understood in two ways")
        return "chunked"
    if not lengths:
        return "close"
    if len(lengths) > 1 or not re.fullmatch(r"\d{1,15}", lengths[0], re.ASCII):
        raise MalformedMessage(status, "a body without one clear length")
    return int(lengths[0])


async def read_body(reader: ByteReader, framing: Framing, status: int = 400) -> AsyncIterator[bytes]:
    """Give a body piece by piece as it comes; Cut where it ends too early."""
    if framing == "close":
        while piece := await reader.read(PIECE_BYTES):
            yield piece
    elif framing == "chunked":
        while size := await _chunk_size(reader, status):
            async for piece in _exactly(reader, size):
                yield piece
            if await _line(reader, status) != b"\r\n":
                raise MalformedMessage(status, "a chunk that is longer than it says")
        await _skip_trailers(reader, status)
    else:
        async for piece in _exactly(reader, framing):
            yield piece


async def _exactly(reader: ByteReader, left: int) -> AsyncIterator[bytes]:
    while left:
        piece = await reader.read(min(left, PIECE_BYTES))
        if not piece:
            raise IncompleteMessage("ended within a body")
        left -= len(piece)
        yield piece


async def _chunk_size(reader: ByteReader, status: int) -> int:
    found = CHUNK.fullmatch(await _line(reader, status))
    if not found:
        raise MalformedMessage(status, "a chunk without a size")
    return int(found[1], 16)


async def _skip_trailers(reader: ByteReader, status: int) -> None:
    for _ in range(MOST_TRAILERS):
        if await _line(reader, status) == b"\r\n":
            return
    raise MalformedMessage(status, "too many trailers")


async def _line(reader: ByteReader, status: int) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError:
        raise IncompleteMessage("ended within a body") from None
    except asyncio.LimitOverrunError:
        raise MalformedMessage(status, "a line of a body that does not end") from None


def frame(piece: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
