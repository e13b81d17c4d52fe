"""The network of a box: an HTTP proxy to allowed hosts, and what a client says first in a tunnel."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
from collections.abc import Callable
from typing import Literal, Protocol

from corral.world.proxy import http1
from corral.world.proxy.dialing import Dialer
from corral.world.proxy.exchange import AnswerFilter, carry
from corral.world.proxy.http1 import MOST_HEAD_BYTES, PIECE_BYTES, ByteReader, HttpRequest, MalformedMessage, values
from corral.world.proxy.listener import (
    ConnectionLimits,
    Peer,
    ProxyClient,
    ProxyEndpoint,
    ProxyListener,
    RequestRefused,
    together,
)
from corral.world.proxy.secret import SecretValue

SWITCHED = re.compile(rb"HTTP/1\.[01] 101\b")
PACKET = re.compile(rb"[0-9a-f]{4}")  #: the size of a packet of git
STATUS_BYTES = 12  #: `HTTP/1.1 101`
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


class _Source(Protocol):
    async def read(self, n: int) -> bytes: ...


class _Answer:
    """What a server says, and how that began."""

    def __init__(self, reader: _Source) -> None:
        self._reader = reader
        self.start = b""
        self.began = asyncio.Event()

    async def read(self, n: int) -> bytes:
        piece = await self._reader.read(n)
        if not self.began.is_set():
            self.start += piece
            if len(self.start) >= STATUS_BYTES or not piece or PACKET.match(self.start):
                self.began.set()
        return piece


async def tunnel(client: Peer, upstream: Peer, check: Check | None, idle_seconds: float) -> None:
    """Carry bytes until both sides have said all, one fails, or nothing moves for too long.

    Without a `check` nothing is looked at: the tunnel leads to an address.
    """
    loop = asyncio.get_running_loop()
    answer = _Answer(upstream.reader)
    async with asyncio.timeout(idle_seconds) as idle:

        def alive() -> None:
            idle.reschedule(loop.time() + idle_seconds)

        async def there() -> None:
            ahead = PeekReader(client.reader)
            spoken = await kind(ahead) if check else "other"
            if check and spoken == "tls":
                await check_greeting(ahead, check)
            elif check and spoken == "http":
                await _one_request(ahead, upstream, check, answer, alive)
            elif check and spoken == "git":
                await _git_request(ahead, upstream, check, answer)
            await _pump(ahead, upstream, alive)

        await together(there(), _pump(answer, client, alive), until=asyncio.FIRST_EXCEPTION)


async def _pump(source: _Source, target: Peer, alive: Callable[[], None]) -> None:
    while piece := await source.read(PIECE_BYTES):
        await target.send(piece)
        alive()
    if target.writer.can_write_eof():
        target.writer.write_eof()


async def _one_request(
    ahead: PeekReader, upstream: Peer, check: Check, answer: _Answer, alive: Callable[[], None]
) -> None:
    """Carry one plain request to the server it is checked for; a second could name another."""
    try:
        lines = await http1.read_head(ahead)
        if lines is None:
            return
        request = http1.request_of(lines)
        check_host(request, check)
        framing = http1.request_framing(request)
        upgrade = [("Upgrade", value) for value in http1.values(request.fields, "upgrade")]
        last = [*upgrade, ("Connection", "Upgrade" if upgrade else "close")]
        fields = [*http1.end_to_end_fields(request.fields), *http1.framing_fields(request), *last]
        await upstream.send(http1.encode(f"{request.method} {request.target} HTTP/1.{request.minor}", fields))
        async for piece in http1.read_body(ahead, framing):
            alive()
            await upstream.send(http1.frame(piece, chunked=framing == "chunked"))
    except MalformedMessage as malformed:
        raise WrongServer(f"plain HTTP that cannot be checked: {malformed}", plain=True) from None
    if framing == "chunked":
        await upstream.send(b"0\r\n\r\n")
    if upgrade:
        await answer.began.wait()
        if SWITCHED.match(answer.start):
            return
    if ahead.buffer or await ahead.more():
        raise WrongServer("plain HTTP asked twice over one connection")


async def _git_request(ahead: PeekReader, upstream: Peer, check: Check, answer: _Answer) -> None:
    """Carry the request of git://; what follows waits until a git server has answered: to others it could be HTTP."""
    await upstream.send(await git_request(ahead, check))
    await answer.began.wait()
    if not PACKET.match(answer.start):
        raise WrongServer("git:// was answered by something else than git")


MOST_REPORTED = 1000


PLACE = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,255}))(?::(?P<port>\d{1,5}))?")


WHOLE = re.compile(r"http://(?P<place>[^/?#]*)(?P<path>[/?][^#]*)?", re.IGNORECASE)


OnDecision = Callable[[str, int, bool, str], None]  #: host, port, allowed, why not


class Rule(Protocol):
    """Decides; None means yes, words say why not."""

    def refusal(self, host: str, port: int) -> str | None: ...
    def address_refusal(self, host: str, port: int, reached: str) -> str | None: ...


class Egress(ProxyEndpoint):
    """Serves a listening socket: CONNECT for all that is encrypted, whole URLs for plain HTTP.

    `token`, where the socket can be reached by others than the box: who comes must give it as the password of
    the proxy's URL (`http://corral:TOKEN@127.0.0.1:PORT`).
    """

    def __init__(
        self,
        listener: socket.socket,
        rule: Rule,
        on_decision: OnDecision,
        *,
        dialer: Dialer | None = None,
        limits: ConnectionLimits | None = None,
        token: SecretValue | None = None,
    ) -> None:
        self._rule, self._report = rule, _Once(on_decision)
        self._limits = limits or ConnectionLimits()
        self._dialer = dialer or Dialer(seconds=self._limits.connect_seconds)
        self._token = token
        super().__init__(ProxyListener(listener, self._answer, self._limits, gateway="the box's way out"))

    async def _answer(self, client: ProxyClient) -> None:
        request = await client.request(self._limits.head_seconds)
        if request is None:
            return
        if self._token and not _gives(request, self._token):
            raise RequestRefused(
                407, "the token of this attempt is needed", ("Proxy-Authenticate", 'Basic realm="corral"')
            )
        if request.method == "CONNECT":
            host, port = _place(request.target, None)
            async with await self._reach(host, port, plain=False) as upstream:
                await self._tunnel(client, upstream, host, port)
        else:
            await self._forward(client, request)

    async def _reach(self, host: str, port: int, *, plain: bool) -> Peer:
        """Ask the rule about a host and where it leads, tell what it said, and connect."""
        why = self._rule.refusal(host, port)
        hop = self._dialer.hop(host, plain=plain)
        if why is None and hop and _is_address(host):
            why = self._rule.address_refusal(host, port, host)
        if why:
            self._report(host, port, why)
            raise RequestRefused(403, why)
        if hop:
            self._report(host, port, "")
            return await self._dialer.connect_over(hop, host, port, tunnel=not plain)
        try:
            upstream = await self._dialer.connect(
                host, port, lambda found: self._rule.address_refusal(host, port, found)
            )
        except RequestRefused as refused:
            self._report(host, port, str(refused) if refused.status == 403 else "")
            raise
        self._report(host, port, "")
        return upstream

    async def _tunnel(self, client: ProxyClient, upstream: Peer, host: str, port: int) -> None:
        client.answered = True
        await client.send(b"HTTP/1.1 200 Connected\r\n\r\n")
        try:
            # Behind an address any name may be; who listed it meant the machine.
            check = None if _is_address(host) else host.__eq__
            await tunnel(client, upstream, check, self._limits.idle_seconds)
        except WrongServer as wrong:
            self._report(host, port, str(wrong))
            if wrong.plain:
                await client.send(f"HTTP/1.1 403 Refused\r\nConnection: close\r\n\r\ncorral: {wrong}\n".encode())
            elif wrong.git:
                words = f"ERR corral: {wrong}\n".encode()
                await client.send(b"%04x%s" % (len(words) + 4, words))
            else:
                client.cut()

    async def _forward(self, client: ProxyClient, request: HttpRequest) -> None:
        found = WHOLE.fullmatch(request.target)
        if not found:
            raise MalformedMessage(400, "a proxy is asked with CONNECT, or with a whole http:// URL")
        host, port = _place(found["place"], 80)
        ending = http1.framing_fields(request)  # refused before anybody is connected to
        path = found["path"] or "/"
        place, target = _host_and_port(host, port), path if path.startswith("/") else f"/{path}"
        async with await self._reach(host, port, plain=True) as upstream:
            hop = self._dialer.hop(host, plain=True)
            first = f"{request.method} {f'http://{place}{target}' if hop else target} HTTP/1.1"
            # The host that was asked about is the host that is named, whatever stood in the Host field.
            fields = [("Host", place), *http1.end_to_end_fields(request.fields, but=("host", "expect"))]
            fields += [*ending, ("Connection", "close"), *(hop.fields() if hop else [])]
            await upstream.send(http1.encode(first, fields))
            await carry(client, request, upstream, AnswerFilter(), self._limits.idle_seconds)


class _Once:
    """Tells each decision about a host once, and stops where someone makes names up."""

    def __init__(self, on_decision: OnDecision) -> None:
        self._report = on_decision
        self._known: set[tuple[str, int, str]] = set()

    def __call__(self, host: str, port: int, why: str) -> None:
        if (host, port, why) in self._known or len(self._known) > MOST_REPORTED:
            return
        self._known.add((host, port, why))
        if len(self._known) > MOST_REPORTED:
            host, port, why = "*", 0, f"more than {MOST_REPORTED} hosts were asked for: no more are reported"
        self._report(host, port, not why, why)


def _gives(request: HttpRequest, token: SecretValue) -> bool:
    for value in http1.values(request.fields, "proxy-authorization"):
        scheme, _, encoded = value.partition(" ")
        with contextlib.suppress(ValueError):
            pair = base64.b64decode(encoded.strip(), validate=True).decode()
            return scheme.lower() == "basic" and token.matches(pair.partition(":")[2])
    return False


def _place(text: str, default: int | None) -> tuple[str, int]:
    found = PLACE.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else default
    if not found or not port or port > 65535:
        raise MalformedMessage(400, "a host and a port are needed")
    return (found["six"] or found["name"]).lower().removesuffix("."), port


def _host_and_port(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port == 80 else f"{name}:{port}"


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


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
