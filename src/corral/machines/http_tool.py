"""HTTP requests of programs: to hosts that the scope names, one at a time, with bounded answers."""

from __future__ import annotations

import asyncio
import os
import ssl
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from corral.machines.tool_calls import CallFailed
from corral.model import Net
from corral.model.errors import BadRequest
from corral.rules.context.program_tools import Http
from corral.rules.scope import hosts
from corral.rules.scope.hosts import Hosts
from corral.world.proxy import dialing, http1
from corral.world.proxy.dialing import Dialer, Hop
from corral.world.proxy.http1 import MalformedMessage
from corral.world.proxy.listener import Peer, RequestRefused

CONNECT_SECONDS = 15.0
DENIED = 403
#: What a program cannot say: the host is that of the URL, and how a body ends is ours to say.
OURS = frozenset(http1.HOP_BY_HOP | {"host", "content-length", "expect", "accept-encoding"})


class HttpReply(Struct, frozen=True, kw_only=True):
    """What a server answered, as a program gets it."""

    status: int
    headers: dict[str, str]  #: names in small letters; without cookies
    body: str
    whole: bool  #: there was no more than the program asked for


async def fetch(asked: Http, net: Net) -> HttpReply:
    """Send one request, if the scope names its host; redirects are answers like any other."""
    if isinstance(net, str) or not net:
        raise CallFailed("refused", 'http: the scope names no hosts; to allow one: net = ["HOST"] in [scope]')
    parts, port = _address(asked.url)
    host = (parts.hostname or "").removesuffix(".")
    plain = parts.scheme == "http"
    fields = _fields(asked)
    try:
        rule = hosts.read([word for word in net if not word.startswith("@")])
        async with asyncio.timeout(asked.timeout_seconds):
            dialer = Dialer(through=dialing.chain(os.environ), seconds=CONNECT_SECONDS)
            hop = dialer.hop(host, plain=plain)
            async with await _reach(rule, dialer, hop, host, port, plain=plain) as peer:
                if not plain:
                    await dialing.secure(peer, ssl.create_default_context(), host, CONNECT_SECONDS)
                return await _exchange(peer, asked, _request(asked, parts, hop if plain else None, fields))
    except RequestRefused as refused:
        raise CallFailed("refused" if refused.status == DENIED else "failed", f"http: {refused}") from None
    except TimeoutError:
        raise CallFailed("failed", f"http: no whole answer within {asked.timeout_seconds:g} s") from None
    except (MalformedMessage, BadRequest) as error:
        raise CallFailed("failed", f"http: {error}") from None
    except OSError as error:
        raise CallFailed("failed", f"http: {error.strerror or type(error).__name__}") from None


def _address(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        parts, port = SplitResult("", "", "", "", ""), 0
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or not clean:
        raise CallFailed("bad_arguments", "http: a URL is http://HOST/PATH or https://HOST/PATH, without a password")
    return parts, port


def _fields(asked: Http) -> list[tuple[str, str]]:
    for name, value in asked.headers.items():
        if not http1.TOKEN.fullmatch(name) or not http1.VALUE.fullmatch(value):
            raise CallFailed("bad_arguments", f"http: the header {name[:80]!r} cannot be sent")
        if name.lower() in OURS:
            raise CallFailed("bad_arguments", f"http: the header {name[:80]!r} is not a program's to set")
    return [*asked.headers.items()]


async def _reach(rule: Hosts, dialer: Dialer, hop: Hop | None, host: str, port: int, *, plain: bool) -> Peer:
    """Connect to a host that the rule allows, where it leads to an address that the rule allows."""
    why = rule.refusal(host, port)
    if why is None and hop and hosts.address(host):
        why = rule.address_refusal(host, port, host)
    if why:
        raise RequestRefused(DENIED, why)
    if hop:
        return await dialer.connect_over(hop, host, port, tunnel=not plain)
    return await dialer.connect(host, port, lambda found: rule.address_refusal(host, port, found))


def _request(asked: Http, parts: SplitResult, hop: Hop | None, fields: list[tuple[str, str]]) -> bytes:
    place = parts.netloc
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body = asked.body.encode(errors="replace")
    own = [("Host", place), ("Accept-Encoding", "identity"), ("Connection", "close")]
    own += [("Content-Length", str(len(body)))] if body or asked.method not in ("GET", "HEAD") else []
    own += hop.fields() if hop else []
    return (
        http1.encode(f"{asked.method} {f'http://{place}{target}' if hop else target} HTTP/1.1", [*own, *fields]) + body
    )


async def _exchange(peer: Peer, asked: Http, request: bytes) -> HttpReply:
    await peer.send(request)
    lines = await http1.read_head(peer.reader, 502)
    while lines and http1.response_of(lines).status < 200:
        lines = await http1.read_head(peer.reader, 502)
    if lines is None:
        raise MalformedMessage(502, "the server ended without an answer")
    answer = http1.response_of(lines)
    body = bytearray()
    async for piece in http1.read_body(peer.reader, http1.response_framing(answer, asked.method), 502):
        body += piece
        if len(body) > asked.most_bytes:
            break
    return HttpReply(
        status=answer.status,
        headers={name.lower(): value for name, value in answer.fields if name.lower() != "set-cookie"},
        body=bytes(body[: asked.most_bytes]).decode(errors="replace"),
        whole=len(body) <= asked.most_bytes,
    )
