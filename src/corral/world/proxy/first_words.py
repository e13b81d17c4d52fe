"""What a client says first in a tunnel: TLS, plain HTTP, git or something else, and the server it asks for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Literal

from corral.world.proxy.http1 import MOST_HEAD_BYTES, PIECE_BYTES, ByteReader, HttpRequest, values

HANDSHAKE, CLIENT_HELLO, SERVER_NAME = 22, 1, 0
RECORDS = range(20, 25)  #: types of TLS records
MOST_HELLO_BYTES = 64 * 1024
MOST_LINE_BYTES = 8192
#: A request line of any server's HTTP, also of one that reads it leniently.
REQUEST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\s+(?:/|\*|https?:)|.*\bHTTP/\d", re.IGNORECASE)
#: The request of git://, one packet: its size, the service and path, then fields with a NUL at their end.
GIT = re.compile(rb"([0-9a-f]{4})git-(?:upload-pack|receive-pack|upload-archive) /")
GIT_FIELDS = re.compile(rb"[^\0\r\n]+\0host=([^\0\r\n]*)\0(?:\0(?:[^\0\r\n]+\0)+)?")
METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*")  #: any word of these characters may be one
AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{0,5})?")

Kind = Literal["tls", "http", "git", "other"]
Check = Callable[[str], bool]  #: the name that is asked for -> may it


class WrongServer(ConnectionError):
    """Another server was asked for than the one the tunnel leads to, or it cannot be seen which."""

    def __init__(self, words: str, *, plain: bool = False, git: bool = False) -> None:
        super().__init__(words)
        self.plain = plain  #: it was plain HTTP
        self.git = git  #: it was git://


class PeekReader:
    """A reader whose first bytes can be looked at before they are read."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self.buffer = b""

    async def more(self) -> bool:
        """Look further; False where nothing more comes."""
        piece = await self._reader.read(PIECE_BYTES)
        self.buffer += piece
        return bool(piece)

    async def read(self, n: int) -> bytes:
        if not self.buffer:
            return await self._reader.read(n)
        piece, self.buffer = self.buffer[:n], self.buffer[n:]
        return piece

    async def readuntil(self, separator: bytes) -> bytes:
        while (at := self.buffer.find(separator)) < 0:
            if len(self.buffer) > MOST_HEAD_BYTES:
                raise asyncio.LimitOverrunError("too long", len(self.buffer))
            if not await self.more():
                raise asyncio.IncompleteReadError(self.buffer, None)
        at += len(separator)
        piece, self.buffer = self.buffer[:at], self.buffer[at:]
        return piece


async def kind(ahead: PeekReader) -> Kind:
    """Tell what a client speaks, as soon as that can be seen."""
    while (found := kind_of(ahead.buffer)) is None:
        if not await ahead.more():
            return "other"
    return found


def kind_of(start: bytes) -> Kind | None:
    """Tell what begins so; None where there is too little of it."""
    if start[:1] and start[0] in RECORDS:
        return "tls" if start[0] == HANDSHAKE or start[1:2] in (b"", b"\3") else "other"
    if GIT.match(start):
        return "git"
    line, end, _ = start.lstrip().partition(b"\n")
    if REQUEST.match(line):
        return "http"
    word = re.split(rb"\s", line, maxsplit=1)[0]
    if end or not METHOD.fullmatch(word):
        return "other"
    return "http" if len(start) > MOST_LINE_BYTES else None  # so long a line is refused, unless it is a request


async def check_greeting(ahead: PeekReader, check: Check) -> None:
    """Look at all of a TLS greeting, and ask about the name in it."""
    while (greeting := join_records(ahead.buffer)) is None:
        if len(ahead.buffer) > MOST_HELLO_BYTES or not await ahead.more():
            raise WrongServer("TLS began with a greeting that does not end")
    name = server_name(greeting)
    if name is not None and not check(name):
        raise WrongServer("TLS asked for another server by that way")


def join_records(raw: bytes) -> bytes | None:
    """Return the greeting that one or more TLS records hold; None where there is more to come."""
    greeting = b""
    while raw:
        if raw[0] != HANDSHAKE:
            raise WrongServer("TLS began with records of mixed types")
        if len(raw) < 5:
            return None
        size = int.from_bytes(raw[3:5], "big")
        greeting += raw[5 : 5 + size]
        raw = raw[5 + size :]
        if greeting and greeting[0] != CLIENT_HELLO:
            raise WrongServer("TLS began with something else than a greeting")
        if len(greeting) >= 4 and len(greeting) >= 4 + int.from_bytes(greeting[1:4], "big"):
            return greeting
    return None


def server_name(greeting: bytes) -> str | None:
    """Return the server's name that a TLS greeting asks for."""
    at = 4 + 2 + 32  # kind and size, version, random
    for width in (1, 2, 1):  # what was resumed, ciphers, compressions
        at += width + int.from_bytes(greeting[at : at + width], "big")
    at += 2
    names: list[str] = []
    while at + 4 <= len(greeting):
        extension, size = int.from_bytes(greeting[at : at + 2], "big"), int.from_bytes(greeting[at + 2 : at + 4], "big")
        if extension == SERVER_NAME:
            names.append(_only_name(greeting[at + 4 : at + 4 + size]))
        at += 4 + size
    if len(names) > 1:
        raise WrongServer("TLS asked for several servers")
    return names[0] if names else None


def _only_name(listed: bytes) -> str:
    """Return the name of a list that holds one; servers differ in which of several they take."""
    name = listed[5:]
    sizes = int.from_bytes(listed[:2], "big"), int.from_bytes(listed[3:5], "big")
    if listed[2:3] != b"\0" or sizes != (len(name) + 3, len(name)):
        raise WrongServer("TLS asked for several servers, or for none that can be read")
    return name.decode("latin-1").lower().removesuffix(".")


def check_host(request: HttpRequest, check: Check) -> None:
    """Ask about the server that a plain request names: in its Host field, and in its target if that is a whole URL."""
    hosts = values(request.fields, "host")
    if len(hosts) > 1 or (not hosts and request.minor == 1):
        raise WrongServer("plain HTTP named no server, or several", plain=True)
    whole = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)", request.target)
    if not whole and not request.target.startswith(("/", "*")):
        raise WrongServer("plain HTTP asked for what is no path", plain=True)
    for asked in (*hosts, *([whole[1]] if whole else [])):
        found = AUTHORITY.fullmatch(asked)
        if not found or not found["name"] or not check(found["name"].lower().removesuffix(".")):
            raise WrongServer("plain HTTP asked for another server by that way", plain=True)


async def git_request(ahead: PeekReader, check: Check) -> bytes:
    """Read the request of git:// and ask about the server that it names; return it whole."""
    size = int(ahead.buffer[:4], 16)
    while len(ahead.buffer) < size:
        if not await ahead.more():
            raise WrongServer("git:// began with a request that does not end", git=True)
    request, ahead.buffer = ahead.buffer[:size], ahead.buffer[size:]
    fields = GIT_FIELDS.fullmatch(request, 4)
    found = AUTHORITY.fullmatch(fields[1].decode("latin-1")) if fields else None
    if not found or not found["name"]:
        raise WrongServer("git:// named no server, or in a way that cannot be checked", git=True)
    if not check(found["name"].lower().removesuffix(".")):
        raise WrongServer("git:// asked for another server by that way", git=True)
    return request
