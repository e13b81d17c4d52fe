"""Hosts and API paths that an attempt may reach: the meaning of a net list and of two together."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from corral.model import Net
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
REGISTRIES = "@registries"
MOST_SHOWN = 200
#: A version, and what gateways put before it: `/v1`, `/v1beta`, `/openai/v1`, `/api/v1`.
API_VERSION = r"(?:/(?:openai|anthropic|api|inference))?(?:/v\d\w{0,8})?(?:/openai)?"
API_NAME = r"[\w.:@+~-]+(?:/[\w.:@+~-]+){0,3}"  #: of a model; some have slashes
OPENAI = {
    "costs": rf"POST {API_VERSION}/(?:chat/completions|responses|responses/compact|completions|embeddings)",
    "free": rf"POST {API_VERSION}/responses/input_tokens|GET {API_VERSION}/models(?:/{API_NAME})?",
}
ANTHROPIC = {
    "costs": rf"POST {API_VERSION}/messages",
    "free": rf"POST {API_VERSION}/messages/count_tokens|GET {API_VERSION}/models(?:/{API_NAME})?",
}
#: Vertex AI puts the project before the model.
MODEL_NAME = (
    rf"{API_VERSION}(?:/projects/[\w.:-]+/locations/[\w-]+)?(?:/publishers/\w+)?/(?:tunedModels|models)/[\w.@-]+"
)
GEMINI = {
    "costs": rf"POST {MODEL_NAME}:(?:generateContent|streamGenerateContent|embedContent|batchEmbedContents)",
    "free": rf"POST {MODEL_NAME}:countTokens|GET {API_VERSION}/models|GET {MODEL_NAME}",
}
OLLAMA = {
    "costs": rf"POST /api/(?:chat|generate|embed|embeddings)|{OPENAI['costs']}",
    "free": rf"POST /api/show|GET /api/(?:tags|ps|version)|{OPENAI['free']}",
}
#: By the variable that says where an agent's provider is.
APIS = {
    "ANTHROPIC_BASE_URL": (ANTHROPIC,),
    "OPENAI_BASE_URL": (OPENAI,),
    "GOOGLE_GEMINI_BASE_URL": (GEMINI, OPENAI),
    "OLLAMA_HOST": (OLLAMA,),
}
BESIDE_MODELS = re.compile(r"POST /api/(?!v\d|chat|generate|embed).*")  #: what agents that log in report there besides
ALWAYS_ALLOWED = r"(?:GET|HEAD) /"  #: agents look so whether anybody is there


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


#: Those of documents and benchmarks lead nowhere in the world, so where one answers it is someone's own.
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
    """Part a host from its port; an IPv6 address with a port is in brackets."""
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


def net_problem(item: str) -> tuple[str, str] | None:
    """Return what is wrong with one item of a net list, and what to write in its place."""
    if item == REGISTRIES:
        return None
    if item.startswith("@"):
        return f"`{item}` is no list of hosts", f"known: {REGISTRIES}"
    if item in ("on", "off"):
        return f"`{item}` must be alone", f'write net = "{item}"'
    try:
        read((item,))
    except BadRequest as error:
        return str(error).removeprefix("net: "), error.hint
    return None


def narrow_net(outer: Net, inner: Net) -> Net:
    """Return what both allow."""
    if "off" in (outer, inner):
        return "off"
    if isinstance(outer, str) and isinstance(inner, str):
        return "on"
    if isinstance(outer, str) or isinstance(inner, str):
        listed = inner if isinstance(outer, str) else outer
        # `on` is all that is public: a list is not widened by it to what is near.
        return _words((_public(entry) for entry in _entries(listed)), registries=REGISTRIES in listed)
    both = [_both(one, other) for one in _entries(outer) for other in _entries(inner)]
    return _words(both, registries=REGISTRIES in outer and REGISTRIES in inner)


def _entries(words: Iterable[str]) -> tuple[HostEntry, ...]:
    return read([word for word in words if word != REGISTRIES]).entries


def _public(entry: HostEntry) -> HostEntry | None:
    if entry.host == "localhost" or entry.host.endswith(".localhost"):
        return None
    if address(entry.host) and kind(entry.host) != "public":
        return None
    return HostEntry(entry.host, entry.port, entry.below)


def _both(one: HostEntry, other: HostEntry) -> HostEntry | None:
    """Return what two items both mean."""
    if one.port is not None and other.port is not None and one.port != other.port:
        return None
    port = one.port if other.port is None else other.port
    if port is not None and None in (one.port, other.port) and port not in PORTS:
        return None
    narrower = next((each for each, wide in ((one, other), (other, one)) if _within(each, wide)), None)
    return HostEntry(narrower.host, port, narrower.below, one.private and other.private) if narrower else None


def _within(one: HostEntry, wide: HostEntry) -> bool:
    """Tell whether the hosts of one are among those of the other."""
    if not wide.below:
        return one.host == wide.host and not one.below
    if one.below and one.host == wide.host:
        return True
    return one.host.endswith("." + wide.host) and not address(one.host)


def _words(entries: Iterable[HostEntry | None], *, registries: bool) -> tuple[str, ...]:
    found = {entry for entry in entries if entry is not None}
    fewest = [each for each in found if not any(each != wide and _is_covered(each, wide) for wide in found)]
    return tuple(sorted({*map(_entry_text, fewest), *([REGISTRIES] if registries else [])}))


def _is_covered(one: HostEntry, wide: HostEntry) -> bool:
    ports = wide.port == one.port or (wide.port is None and one.port in PORTS)
    return ports and _within(one, wide) and (wide.private or not one.private)


def _entry_text(entry: HostEntry) -> str:
    host = f"[{entry.host}]" if ":" in entry.host else entry.host
    mark = f"{PRIVATE if entry.private else ''}{'*.' if entry.below else ''}"
    return f"{mark}{host}" if entry.port is None else f"{mark}{host}:{entry.port}"


class ApiPaths(Struct, frozen=True):
    """What passes for one agent."""

    agent: str
    costing: re.Pattern[str]
    free: re.Pattern[str]
    everything: bool = False  #: nothing is refused: the agent logs in by itself

    def refusal(self, method: str, path: str) -> str | None:
        """Return why a request may not pass, None when it may; `path` is below the provider's base URL."""
        asked = f"{method} {path}"
        if self.everything or self.costing.fullmatch(asked) or self.free.fullmatch(asked):
            return None
        shown = asked[:MOST_SHOWN]
        return f'{shown} does not pass with the key; to allow it: [agents.{self.agent}] paths = ["{shown}"]'

    def costs(self, method: str, path: str) -> bool:
        """Return whether a request may cost money."""
        asked = f"{method} {path}"
        return (
            method == "POST"
            and not self.free.fullmatch(asked)
            and not (self.everything and BESIDE_MODELS.fullmatch(asked))
        )


def api_paths(agent: str, address: str, more: Sequence[str], *, everything: bool = False) -> ApiPaths:
    """Return what passes for an agent whose provider is named by a variable; `more` is what settings allow besides."""
    apis = APIS.get(address, (ANTHROPIC, OPENAI, GEMINI))
    own = [_pattern(word) for word in more]
    costing = "|".join([*(api["costs"] for api in apis), *own])
    free = "|".join([ALWAYS_ALLOWED, *(api["free"] for api in apis)])
    return ApiPaths(agent, re.compile(costing), re.compile(free), everything)


def _pattern(word: str) -> str:
    """Return the pattern of one entry of `paths`; `*` stands for one step of a path."""
    return re.escape(word).replace(r"\*", r"[^/]+").replace(r"\ ", " ")
