"""Which hosts an attempt may reach: what a net list means, and which addresses no name may lead to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest

PORTS = (443, 80)  #: what a host without a port means
PRIVATE = "private:"  #: before a host that may lead to this machine or its own network
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
RANGE = re.compile(r"[0-9a-fA-F.:*\[\]]+(/\d+|-[0-9a-fA-F.:\[\]]+)|\d+(\.(\d+|\*)){0,3}\.\*")
#: Letters that old and new rules of international names turn into different hosts.
AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d\u1e9e")

Kind = Literal["public", "loopback", "private", "link-local", "special"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
COMPATIBLE = ipaddress.IPv6Network("::/96")
SHARED = ipaddress.IPv4Network("100.64.0.0/10")
#: Ours to name by a mark: what is of this machine or its own network. Anything else only by its very address.
NEAR: frozenset[Kind] = frozenset({"loopback", "private"})


class HostEntry(Struct, frozen=True):
    """One word of a net list."""

    host: str
    port: int | None = None  #: None: the ports of PORTS
    below: bool = False  #: its subdomains, not itself
    private: bool = False

    def covers(self, host: str, port: int) -> bool:
        if port not in (PORTS if self.port is None else (self.port,)):
            return False
        return host.endswith("." + self.host) and not address(host) if self.below else host == self.host


class Hosts(Struct, frozen=True):
    """What a net list allows; nothing when it is empty."""

    entries: tuple[HostEntry, ...] = ()
    everything: bool = False  #: all that is public

    def refusal(self, host: str, port: int) -> str | None:
        """Return why a host may not be reached, None when it may; its addresses are asked about next."""
        try:
            name = canonical(host)
        except ValueError:
            return "that is no host's name"
        if self.everything or self._covering(name, port):
            return None
        return f"{_host_and_port(name, port)} is not in the net list; to allow it add {_word(name, port)} to net"

    def address_refusal(self, host: str, port: int, reached: str) -> str | None:
        """Return why a host that led to an address may not be reached there, None when it may."""
        try:
            name, found = canonical(host), _address(reached)
        except ValueError:
            return "that is no host's name, or led to no address"
        what = kind(str(found))
        if what == "public" or any(_opens(entry, name, what) for entry in self._covering(name, port)):
            return None
        where = (
            f"{_host_and_port(name, port)} is"
            if name == str(found)
            else f"{_host_and_port(name, port)} leads to {found},"
        )
        refused = f"{where} a {what} address"
        if name == str(found):
            return f"{refused}; to allow it add {_word(name, port)} to net"
        if what in NEAR:
            return f"{refused}; to allow it add {_word(name, port, PRIVATE)} to net"
        return f"{refused}, which no name may lead to"

    def _covering(self, name: str, port: int) -> list[HostEntry]:
        return [entry for entry in self.entries if entry.covers(name, port)]


def _opens(entry: HostEntry, name: str, what: Kind) -> bool:
    """Whether an entry that covers a host lets it lead to an address that is not public."""
    if address(name):
        return True  # it was listed by this very address
    own = name == "localhost" or name.endswith(".localhost")
    return (entry.private and what in NEAR) or (own and not entry.below and what == "loopback")


def read(words: Sequence[str]) -> Hosts:
    """Read a net list: `example.org`, `*.example.org`, `example.org:8443`, `private:mirror.corp`, `on` or `off`."""
    named = [word for word in words if word not in {"on", "off"}]
    if "off" in words and len(words) > 1:
        raise BadRequest("net says off and names hosts too", hint="leave `off` out, or the hosts")
    return Hosts(tuple(_entry(word) for word in named), "on" in words)


def of_url(url: str, *, private: bool = False) -> str:
    """Return the word of a net list that stands for a URL's host and port: a provider's, a registry's."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}[parts.scheme]
        name = canonical(parts.hostname or "")
    except (ValueError, KeyError):
        raise BadRequest("a base URL is no http or https URL", hint="write it as https://host/path") from None
    mark = PRIVATE if private and not address(name) else ""
    return f"{mark}[{name}]:{port}" if ":" in name else f"{mark}{name}:{port}"


def canonical(host: str) -> str:
    """Return the one way to write a host; ValueError for what is none."""
    text = host.strip("[]") if host.startswith("[") and host.endswith("]") else host
    found = address(text)
    if found:
        return str(found)
    name = text.lower().removesuffix(".")
    if not name.isascii():
        if AMBIGUOUS & set(name):
            raise ValueError("ambiguous")
        name = name.encode("idna").decode("ascii").lower()
    labels = name.split(".")
    # What ends in a number is an address in some old notation (127.1, 0x7f000001), and nobody's name.
    if len(name) > 253 or re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]) or not all(map(LABEL.fullmatch, labels)):
        raise ValueError("no host")
    return name


def address(text: str) -> Address | None:
    try:
        return _address(text)
    except ValueError:
        return None


def _address(text: str) -> Address:
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id:
            raise ValueError("an address of one interface only")
        return found.ipv4_mapped or found
    return found


def kind(text: str) -> Kind:
    """Say what an address leads to, also where it only wraps another."""
    found = _address(text)
    if isinstance(found, ipaddress.IPv6Address):
        return _kind_6(found)
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    if found in SHARED or any(found in net for net in _NETWORKS):
        return "private"
    return "public" if found.is_global and not found.is_multicast and not found.is_reserved else "special"


#: Those of documents and benchmarks lead nowhere in the world, so where one answers it is somebody's own.
_NETWORKS = tuple(
    ipaddress.IPv4Network(net)
    for net in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
        "198.18.0.0/15",
    )
)  # fmt: skip


def _kind_6(found: ipaddress.IPv6Address) -> Kind:
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    if found.is_site_local or found in ipaddress.IPv6Network("fc00::/7"):
        return "private"
    if found.is_unspecified or found.is_multicast or found.teredo:
        return "special"
    inner = _inner(found)
    if inner:
        return kind(str(inner))
    return "public" if found in PUBLIC_6 and found.is_global else "special"


def _inner(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the address that a translator or a tunnel on the way would make of it."""
    last = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    tunnelled = (int(found) >> 32) & 0xFDFFFFFF == 0x00005EFE  # ISATAP
    return last if found in NAT64 or found in COMPATIBLE or tunnelled else found.sixtofour


def _entry(word: str) -> HostEntry:
    private = word.startswith(PRIVATE)
    text = word.removeprefix(PRIVATE)
    _not_something_else(text, word)
    below = text.startswith("*.")
    host, port = _split(text.removeprefix("*."), word)
    try:
        name = canonical(host)
    except ValueError:
        hint = "write a host as example.org, *.example.org, example.org:8443 or [::1]:8080"
        raise BadRequest(f"net: {word!r} is no host", hint=hint) from None
    found = address(name)
    if found and (below or found.is_unspecified or found.is_multicast):
        raise BadRequest(f"net: {word!r} is not the address of one host", hint="name hosts one by one")
    if below and "." not in name and not private:
        raise BadRequest(
            f"net: {word!r} is too wide", hint="name the domain too, or use net = on for all that is public"
        )
    return HostEntry(name, port, below, private)


def _not_something_else(text: str, word: str) -> None:
    if "://" in text:
        raise BadRequest(f"net: {word!r} is a URL", hint="write its host alone, or host:port")
    if RANGE.fullmatch(text):
        raise BadRequest(f"net: {word!r} is a range of addresses", hint="name hosts or single addresses one by one")
    if text == "*":
        raise BadRequest("net: '*' would be everything", hint="use net = on for all that is public")


def _split(text: str, word: str) -> tuple[str, int | None]:
    """Part a host from its port; an IPv6 address with a port stands in brackets."""
    if address(text):
        return text, None
    match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?", text)
    if not match:
        raise BadRequest(f"net: {word!r} is no host", hint="write a host as example.org or example.org:8443")
    port = int(match[2]) if match[2] else None
    if port is not None and not 0 < port < 65536:
        raise BadRequest(f"net: {word!r} has no port that exists", hint="ports go from 1 to 65535")
    return match[1], port


def _host_and_port(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _word(name: str, port: int, mark: str = "") -> str:
    return f'"{mark}{name if port in PORTS else _host_and_port(name, port)}"'
