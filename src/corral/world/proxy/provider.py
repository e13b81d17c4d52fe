"""An agent's model provider, answered from outside its box: the real key is put in here, and usage is read here."""

from __future__ import annotations

import re
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.world.proxy import http1
from corral.world.proxy.dialing import Dialer, secure
from corral.world.proxy.exchange import AnswerFilter, carry
from corral.world.proxy.http1 import HttpRequest, HttpResponse, MalformedMessage
from corral.world.proxy.listener import (
    ConnectionLimits,
    Peer,
    ProxyClient,
    ProxyEndpoint,
    ProxyListener,
    RequestRefused,
)
from corral.world.proxy.secret import KeyMask, SecretValue

BEARER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]*) +(?P<key>\S+)")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: By these a request could mean another method than it says.
OVERRIDES = ("x-http-method-override", "x-http-method", "x-method-override")
#: The same as parameters of the URL; Google's APIs take the first.
OVERRIDING = frozenset({"$httpmethod", "$method", "httpmethod", "_method", "_httpmethod", *OVERRIDES})


class AnswerMeter(Protocol):
    """Reads an answer's body as it comes."""

    def feed(self, piece: bytes) -> None: ...

    def end(self, *, whole: bool) -> bool:
        """Return whether all that the answer used is known; `whole`: it came to its end."""
        ...


class MeteredRequest(Protocol):
    """One request that may cost money, until its answer has ended."""

    def meter(self, content_type: str) -> AnswerMeter: ...

    def end(self, *, charged: bool, known: bool, answered: bool) -> None:
        """Count it: whether it may have cost money, and whether the meter knows all that it used."""
        ...


class Counter(Protocol):
    """Counts the requests that may cost money; raises Refused where no more may pass."""

    async def enter(self) -> MeteredRequest: ...


class Paths(Protocol):
    """Which requests pass, and which of them may cost money; paths are below the base URL."""

    def refusal(self, method: str, path: str) -> str | None: ...
    def costs(self, method: str, path: str) -> bool: ...


OnDenied = Callable[[str, str], None]  #: the method and path of a request that was refused, and why


class RequestLimiter(Protocol):
    """Lets requests through as an account has room for them, and hears what its provider says of that."""

    async def enter(self) -> None: ...
    def learn(self, status: int, fields: Sequence[tuple[str, str]]) -> None: ...


class Key(Struct, frozen=True, kw_only=True):
    """A key, what stands for it in the box, and where in a request it may be."""

    real: SecretValue
    placeholder: str  #: not to be guessed where others than the box can reach the socket
    headers: tuple[str, ...] = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
    query: tuple[str, ...] = ()  #: parameters of the URL; Gemini's may be `key`
    needed: bool = False  #: a request without the placeholder is refused: where others can reach the socket

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\x21-\x7e]+", self.real.reveal()) or not re.fullmatch(r"[\x21-\x7e]+", self.placeholder):
            raise BadRequest("a key is empty, or holds blanks or line ends", hint="set it again, without them")


class Upstream:
    """Where requests go: a base URL, and the certificates that are trusted besides the system's."""

    def __init__(self, url: str, *, ca_file: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        host = _ascii(parts.hostname or "")
        good = parts.scheme in {"http", "https"} and host and "@" not in parts.netloc and not parts.query
        if not good or not http1.TARGET.fullmatch(f"/{parts.path}"):
            raise BadRequest("a provider's base URL is no http or https URL", hint="write it as https://host/path")
        usual = 443 if parts.scheme == "https" else 80
        self.host, self.port = host, port or usual
        self.path = parts.path.rstrip("/")
        name = f"[{host}]" if ":" in host else host
        self.place = name if self.port == usual else f"{name}:{self.port}"
        self.context = _context(ca_file) if parts.scheme == "https" else None


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        return ""


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()  # it reads SSL_CERT_FILE
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError:
            raise BadRequest(f"{ca_file} holds no certificates", hint="it must be a file in PEM form") from None
    return context


class ProviderProxy(ProxyEndpoint):
    """Serves a listening socket: every request goes to one place, whatever it says.

    `counter` is asked before each request that may cost money, and reads its answer as it passes. Without `paths`
    every path passes, and every POST may cost money.
    """

    def __init__(
        self,
        listener: socket.socket,
        upstream: Upstream,
        key: Key | None,
        counter: Counter,
        *,
        dialer: Dialer | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._upstream, self._key, self._counter = upstream, key, counter
        self.paths: Paths | None = None
        self.denied: OnDenied | None = None
        self.gate: RequestLimiter | None = None
        self._limits = limits or ConnectionLimits()
        self._dialer = dialer or Dialer(seconds=self._limits.connect_seconds)
        self.trouble: str | None = None  #: why the provider cannot be reached, if the last request found it so
        super().__init__(ProxyListener(listener, self._answer, self._limits, gateway="the model's provider"))

    async def _answer(self, client: ProxyClient) -> None:
        request = await client.request(self._limits.head_seconds)
        if request is None:
            return
        if http1.values(request.fields, "upgrade"):
            raise RequestRefused(426, "no websocket goes this way: use plain HTTP")
        if request.method not in METHODS:
            raise RequestRefused(405, "that method does not go this way")
        ending = http1.framing_fields(request)
        target = _target(request.target, self._upstream.path)
        if _overrides(request.target):
            raise RequestRefused(405, "no parameter may change the method")
        fields = http1.end_to_end_fields(
            request.fields, but=("host", "expect", "accept-encoding", "cookie", *OVERRIDES)
        )
        # Compressed, an answer could not be metered, nor be searched for the key.
        fields += [("Accept-Encoding", "identity"), *ending, ("Connection", "close")]
        target, fields = self._with_key(target, fields)
        costs = self._costs(request)
        if self.gate and request.method == "POST":
            await self.gate.enter()
        head = http1.encode(f"{request.method} {target} HTTP/1.1", [("Host", self._upstream.place), *fields])
        back = _ProviderAnswer(self._key, await self._counter.enter() if costs else None, self.gate)
        try:
            async with await self._connect() as upstream:
                await upstream.send(head)
                back.sent = True
                await carry(client, request, upstream, back, self._limits.idle_seconds)
        finally:
            back.count_request()

    def _costs(self, request: HttpRequest) -> bool:
        """Refuse what an agent's API does not need; return whether the request may cost money."""
        if self.paths is None:
            return request.method == "POST"
        path = request.target.partition("?")[0]
        if why := self.paths.refusal(request.method, path):
            if self.denied:
                self.denied(f"{request.method} {path}", why)
            raise RequestRefused(403, why)
        return self.paths.costs(request.method, path)

    async def _connect(self) -> Peer:
        try:
            peer = await self._reach()
        except RequestRefused as refused:
            self.trouble = str(refused)
            raise
        self.trouble = None
        return peer

    async def _reach(self) -> Peer:
        to = self._upstream
        hop = self._dialer.hop(to.host, plain=to.context is None)
        if hop:
            peer = await self._dialer.connect_over(hop, to.host, to.port, tunnel=True)
        else:
            peer = await self._dialer.connect(to.host, to.port, lambda _: None)  # the user named it
        if to.context:
            try:
                await secure(peer, to.context, to.host, self._limits.connect_seconds)
            except BaseException:
                peer.writer.transport.abort()
                raise
        return peer

    def _with_key(self, target: str, fields: Sequence[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
        """Put the real key where the placeholder is in the places named; another's key in them is left out.

        Left out, since with a key of its own an agent could hand what it reads to an account of someone else.
        """
        if self._key is None:
            return target, list(fields)
        placed, kept = False, list[tuple[str, str]]()
        for name, value in fields:
            if name.lower() not in self._key.headers:
                kept.append((name, value))
            elif (real := _in_header(value, self._key)) is not None:
                placed = True
                kept.append((name, real))
        target, in_query = _in_query(target, self._key)
        if self._key.needed and not placed and not in_query:
            raise RequestRefused(401, "the key of this attempt is needed")
        return target, kept


def _in_header(value: str, key: Key) -> str | None:
    if value == key.placeholder:
        return key.real.reveal()
    found = BEARER.fullmatch(value)
    return f"{found['scheme']} {key.real.reveal()}" if found and found["key"] == key.placeholder else None


def _in_query(target: str, key: Key) -> tuple[str, bool]:
    path, mark, query = target.partition("?")
    if not mark or not key.query:
        return target, False
    kept, placed = list[str](), False
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if unquote(name) not in key.query:
            kept.append(part)
        elif unquote(value) == key.placeholder:
            placed = True
            kept.append(f"{name}={quote(key.real.reveal(), safe='')}")
    return path + (f"?{'&'.join(kept)}" if kept else ""), placed


def _target(target: str, prefix: str) -> str:
    """Return the target below the provider's own path; what would lead elsewhere is refused."""
    path = target.partition("?")[0]
    steps = [step.partition(";")[0] for step in re.split(r"[/\\]", unquote(path))]
    if not target.startswith("/") or "#" in target or ".." in steps or "." in steps:
        raise MalformedMessage(400, "a path is needed, without steps back")
    return prefix + target


def _overrides(target: str) -> bool:
    """Tell whether a parameter of the URL means another method than the request says."""
    names = (part.partition("=")[0] for part in re.split("[&;]", target.partition("?")[2]))
    return any(unquote(name.replace("+", " ")).strip().lower() in OVERRIDING for name in names)


class _ProviderAnswer(AnswerFilter):
    """Takes the key out of what comes back, and lets what is good be metered."""

    same_length = False

    def __init__(self, key: Key | None, passage: MeteredRequest | None, gate: RequestLimiter | None) -> None:
        self._gate, self._passage = gate, passage
        self.sent = False  #: the request went up
        self._status: int | None = None
        self._mask = KeyMask(key.real, key.placeholder) if key else None
        self._meter: AnswerMeter | None = None
        self._packed: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage]

    def head(self, response: HttpResponse) -> tuple[str, list[tuple[str, str]]]:
        self._status = response.status
        if 200 <= response.status < 300 and self._passage:
            kind = http1.values(response.fields, "content-type")
            self._meter = self._passage.meter(kind[0].partition(";")[0].strip().lower() if kind else "")
        if any(word in {"gzip", "x-gzip", "deflate"} for word in http1.words(response.fields, "content-encoding")):
            self._packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # asked for or not, it may come
        reason, fields = super().head(response)
        if self._gate:
            self._gate.learn(response.status, fields)
        if self._mask:
            return self._mask.text(reason), [(name, self._mask.text(value)) for name, value in fields]
        return reason, fields

    def piece(self, data: bytes) -> bytes:
        if self._meter:
            for part in self._unpack(data):
                self._meter.feed(part)
        return self._mask.feed(data) if self._mask else data

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        """Give what is metered, in small parts: a little that is packed can be very much."""
        if self._packed is None:
            yield data
            return
        try:
            while data and not self._packed.eof:
                yield self._packed.decompress(data, http1.PIECE_BYTES)
                data = self._packed.unconsumed_tail
        except zlib.error:
            self._meter = None

    def rest(self) -> bytes:
        return self._mask.end() if self._mask else b""

    def broke_off(self) -> None:
        """Count nothing: a provider whose connection failed before it answered has billed nothing."""
        self.sent = False

    def count_request(self) -> None:
        """Count the request: an answer that says an error costs nothing."""
        known = self._meter.end(whole=self.whole) if self._meter else False
        if self._passage:
            charged = self.sent and (self._status is None or 200 <= self._status < 300)
            self._passage.end(charged=charged, known=known, answered=self._status is not None)
