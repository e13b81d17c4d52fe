"""The way out: a name is looked up once, every address it led to is asked about, and one of these is connected to."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.world.proxy import http1
from corral.world.proxy.listener import Peer, RequestRefused
from corral.world.proxy.secret import SecretValue

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]  #: a name and a port -> addresses
RefusalCheck = Callable[[str], str | None]  #: an address -> why it may not be reached


class LookUp:
    """Asks the system, in a few threads of its own: names that nobody answers for must hold up nobody else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(4, "look-up")

    async def __call__(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _system, host, port)
        return list(dict.fromkeys(found))


def _system(host: str, port: int) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Hop(Struct, frozen=True):
    """A proxy that this machine itself must go through."""

    host: str
    port: int
    credential: SecretValue | None = None

    def fields(self) -> list[tuple[str, str]]:
        return [("Proxy-Authorization", f"Basic {self.credential.reveal()}")] if self.credential else []


class ProxyChain(Struct, frozen=True):
    """What HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""

    tls: Hop | None = None
    plain: Hop | None = None
    but: tuple[str, ...] = ()

    def hop(self, host: str, *, plain: bool) -> Hop | None:
        """Return the proxy on the way to a host, None where the way is direct; to this machine itself it always is."""
        name = host.lower()
        here = name == "localhost" or name.startswith("127.") or name == "::1"
        left_out = any(word in {"*", name} or name.endswith("." + word) for word in self.but)
        return None if here or left_out else self.plain if plain else self.tls


def chain(environment: Mapping[str, str]) -> ProxyChain | None:
    """Read the proxies that this machine goes through."""

    def setting(name: str) -> str:
        return environment.get(name.lower()) or environment.get(name) or ""

    every = setting("ALL_PROXY")
    but = tuple(
        word.strip().lower().lstrip("*").lstrip(".") or "*" for word in setting("NO_PROXY").split(",") if word.strip()
    )
    found = ProxyChain(_hop(setting("HTTPS_PROXY") or every), _hop(setting("HTTP_PROXY") or every), but)
    return found if found.tls or found.plain else None


def _hop(url: str) -> Hop | None:
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError:
        port, parts = 0, urlsplit("")
    if parts.scheme != "http" or not parts.hostname or not port:
        words = "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names no proxy that is spoken to by http"
        raise BadRequest(words, hint="write it as http://host:port")
    credential = None
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credential = SecretValue(base64.b64encode(pair.encode()).decode())
    return Hop(parts.hostname, port, credential)


class Dialer:
    """Connects to hosts; `resolve` is asked once for each connection, so that no second answer can differ."""

    def __init__(
        self, *, resolve: Resolve | None = None, through: ProxyChain | None = None, seconds: float = 30.0
    ) -> None:
        self._resolve, self._through, self._seconds = resolve or LookUp(), through, seconds

    def hop(self, host: str, *, plain: bool) -> Hop | None:
        return self._through.hop(host, plain=plain) if self._through else None

    async def connect(self, host: str, port: int, refusal: RefusalCheck) -> Peer:
        """Connect directly, where none of the addresses is refused."""
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._addresses(host, port)
                for address in addresses:
                    if why := refusal(address):
                        raise RequestRefused(403, why)
                return await _first_of(addresses, port)
        except TimeoutError:
            raise RequestRefused(504, f"{host}:{port} could not be reached within {self._seconds:.0f} s") from None
        except socket.gaierror:
            raise RequestRefused(502, f"{host} is not known") from None
        except OSError as error:
            raise RequestRefused(
                502, f"{host}:{port} could not be reached: {error.strerror or 'no connection'}"
            ) from None

    async def connect_over(self, hop: Hop, host: str, port: int, *, tunnel: bool) -> Peer:
        """Connect by this machine's own proxy; it looks names up itself, so their addresses cannot be asked about."""
        peer = await self.connect(hop.host, hop.port, lambda _: None)
        if not tunnel:
            return peer
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout(self._seconds):
                await peer.send(http1.encode(f"CONNECT {place} HTTP/1.1", [("Host", place), *hop.fields()]))
                lines = await http1.read_head(peer.reader, 502)
                status = http1.response_of(lines).status if lines else 502
        except BaseException:
            peer.writer.transport.abort()
            raise
        if status != 200:
            await peer.close()
            raise RequestRefused(502, f"{place} was refused by this machine's own proxy ({status})")
        return peer

    async def _addresses(self, host: str, port: int) -> list[str]:
        addresses = list(await self._resolve(host, port))
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return addresses


async def _first_of(addresses: Sequence[str], port: int) -> Peer:
    trouble: OSError = ConnectionError("no address")
    for address in addresses:
        try:
            return Peer(*await asyncio.open_connection(address, port, limit=http1.MOST_HEAD_BYTES))
        except OSError as error:
            trouble = error
    raise trouble


async def secure(peer: Peer, context: ssl.SSLContext, host: str, seconds: float) -> None:
    """Speak TLS over a connection from here on."""
    try:
        await peer.writer.start_tls(context, server_hostname=host, ssl_handshake_timeout=seconds)
    except ssl.SSLCertVerificationError as error:
        raise RequestRefused(
            502, f"{host} showed no certificate that is trusted here: {error.verify_message}"
        ) from None
    except (OSError, TimeoutError) as error:
        raise RequestRefused(502, f"{host} speaks no TLS that we understand: {type(error).__name__}") from None
