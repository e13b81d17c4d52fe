"""HTTP requests of the engine's own: bounded, without redirects, never to addresses that no user means."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.world.proxy import dialing

if TYPE_CHECKING:
    import http.client

SECONDS = 15.0
MOST_ANSWER = 500  #: bytes that are read of an answer, unless more is asked for


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """What came back; without a status, `trouble` says what went wrong, in words that hold nothing of the address."""

    status: int = 0
    headers: Mapping[str, str]  #: names in small letters
    body: bytes = b""
    trouble: str = ""


def check_address(url: str, what: str) -> str:
    """Return an address that something is posted to; refuse what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    plain = url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or not plain:
        raise BadRequest(f"{what}: `{url[:200]}` is no address to post to", hint="as https://example.org/hook")
    if (literal := _address_of(parts.hostname)) and (words := _refusal(literal)):
        raise BadRequest(f"{what}: {words}", hint="as https://example.org/hook")
    return url


def exchange(
    method: str,
    address: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    most: int = MOST_ANSWER,
    seconds: float = SECONDS,
) -> HttpAnswer:
    """Send one request and read the beginning of its answer; it blocks, `seconds` for each step at most."""
    import http.client  # noqa: PLC0415 -- slow to load, and seldom needed

    connection: http.client.HTTPConnection | None = None
    try:
        parts = urlsplit(address)
        connection = _connect(parts, seconds)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return HttpAnswer(status=answer.status, headers=found, body=answer.read(most))
    except TimeoutError:
        return _failed_answer("it did not answer in time")
    except OSError as error:
        words = os.strerror(error.errno) if error.errno and error.errno > 0 else "it cannot be reached"
        return _failed_answer(str(error) if isinstance(error, _Refused) else words)
    except (ValueError, BadRequest, http.client.HTTPException):
        return _failed_answer("the address is invalid, or the answer is not HTTP")
    finally:
        if connection:
            connection.close()


def _failed_answer(words: str) -> HttpAnswer:
    return HttpAnswer(headers={}, trouble=words)


class _Refused(OSError):
    """The address is none that is posted to."""


def _connect(parts: SplitResult, seconds: float) -> http.client.HTTPConnection:
    """Connect to a host, through the proxy of this machine if there is one; a name is looked up once."""
    import http.client  # noqa: PLC0415
    import ssl  # noqa: PLC0415

    secure, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    chain = dialing.chain(os.environ)
    hop = chain.hop(host, plain=not secure) if chain and secure else None
    context = ssl.create_default_context() if secure else None
    if hop:
        through = http.client.HTTPSConnection(hop.host, hop.port, timeout=seconds, context=context)
        through.set_tunnel(host, port, dict(hop.fields()))
        return through
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if words := next(
        (words for each in found if (words := _refusal(ipaddress.ip_address(each.partition("%")[0])))), ""
    ):
        raise _Refused(words)
    bare = socket.create_connection((found[0], port), timeout=seconds)
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.sock = context.wrap_socket(bare, server_hostname=host) if context else bare
    except BaseException:
        bare.close()
        raise
    if secure:
        connection.default_port = 443  # pyright: ignore[reportAttributeAccessIssue] -- the Host header depends on it
    return connection


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refusal(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return why an address is never asked: those of cloud metadata are link-local, and no server has the others."""
    inner = (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
    if inner.is_link_local or inner.is_multicast or inner.is_unspecified:
        return f"{address} is no address of a server: link-local, multicast or unspecified"
    return ""
