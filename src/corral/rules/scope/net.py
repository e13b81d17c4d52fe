"""What two net lists have in common: a scope narrows another by it."""

from __future__ import annotations

from collections.abc import Iterable

from corral.model import Net
from corral.model.errors import BadRequest
from corral.rules.scope import hosts
from corral.rules.scope.hosts import PORTS, PRIVATE, HostEntry

REGISTRIES = "@registries"


def trouble(item: str) -> tuple[str, str] | None:
    """Return what is wrong with one item of a net list, and what to write in its place."""
    if item == REGISTRIES:
        return None
    if item.startswith("@"):
        return f"`{item}` is no list of hosts", f"known: {REGISTRIES}"
    if item in ("on", "off"):
        return f"`{item}` stands alone", f'write net = "{item}"'
    try:
        hosts.read((item,))
    except BadRequest as error:
        return str(error).removeprefix("net: "), error.hint
    return None


def narrow(outer: Net, inner: Net) -> Net:
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
    return hosts.read([word for word in words if word != REGISTRIES]).entries


def _public(entry: HostEntry) -> HostEntry | None:
    if entry.host == "localhost" or entry.host.endswith(".localhost"):
        return None
    if hosts.address(entry.host) and hosts.kind(entry.host) != "public":
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
    return one.host.endswith("." + wide.host) and not hosts.address(one.host)


def _words(entries: Iterable[HostEntry | None], *, registries: bool) -> tuple[str, ...]:
    found = {entry for entry in entries if entry is not None}
    fewest = [each for each in found if not any(each != wide and _is_covered(each, wide) for wide in found)]
    return tuple(sorted({*map(_word, fewest), *([REGISTRIES] if registries else [])}))


def _is_covered(one: HostEntry, wide: HostEntry) -> bool:
    ports = wide.port == one.port or (wide.port is None and one.port in PORTS)
    return ports and _within(one, wide) and (wide.private or not one.private)


def _word(entry: HostEntry) -> str:
    host = f"[{entry.host}]" if ":" in entry.host else entry.host
    mark = f"{PRIVATE if entry.private else ''}{'*.' if entry.below else ''}"
    return f"{mark}{host}" if entry.port is None else f"{mark}{host}:{entry.port}"
