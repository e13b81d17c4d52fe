"""Take secrets out of what is stored or shown: values we know, and shapes that only secrets have."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from msgspec import Struct, structs

SHORTEST = 8  #: a shorter value would be found in every second word
LONGEST_SHAPE = 16384  #: no shape fits more than this, so no more is ever held back
LIKELY = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH(?!OR(?!I))|COOKIE|DSN|PRIVATE", re.IGNORECASE)
ORDINARY = re.compile(r"[A-Za-z_./ -]*")  #: a word, a path: to take it out everywhere would harm more than help
T = TypeVar("T")
#: How a shape begins -> how it continues. The beginnings are plain text, so that a search for all of them is quick;
#: what follows ends where its alphabet ends, and nothing is tried twice. `(?P<keep>` is left standing.
_EDGE = r"(?<![A-Za-z0-9_])"
_DIGIT = r"(?=[A-Za-z._~+/=-]{0,200}[0-9])"
_IS = r"[\"'\\]{0,3}[ \t]{0,4}[:=][ \t]{0,4}[\"'\\]{0,3}"
SHAPES = {
    "sk-": _EDGE + r"sk-" + _DIGIT + r"[A-Za-z0-9_-]{20,400}",
    "ghp_": _EDGE + r"ghp_[A-Za-z0-9]{30,255}",
    "gho_": _EDGE + r"gho_[A-Za-z0-9]{30,255}",
    "ghu_": _EDGE + r"ghu_[A-Za-z0-9]{30,255}",
    "ghs_": _EDGE + r"ghs_[A-Za-z0-9]{30,255}",
    "ghr_": _EDGE + r"ghr_[A-Za-z0-9]{30,255}",
    "github_pat_": _EDGE + r"github_pat_[A-Za-z0-9_]{22,255}",
    "glpat-": _EDGE + r"glpat-[A-Za-z0-9_-]{20,64}",
    "AKIA": _EDGE + r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "ASIA": _EDGE + r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AIza": _EDGE + r"AIza[A-Za-z0-9_-]{35}",
    "xox": _EDGE + r"xox[abeprs]-[A-Za-z0-9-]{10,255}",
    "npm_": _EDGE + r"npm_[A-Za-z0-9]{36}",
    "pypi-": _EDGE + r"pypi-[A-Za-z0-9_-]{50,400}",
    "hf_": _EDGE + r"hf_[A-Za-z0-9]{30,64}",
    "_live_": r"(?<=[srp]k)_live_[A-Za-z0-9]{16,255}",
    "eyJ": _EDGE + r"eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,2048}",
    "earer": r"(?P<keep1>(?<=[Bb])earer(?:[ \t]|%20){1,4})" + _DIGIT + r"[A-Za-z0-9._~+/=-]{16,8192}",
    "EARER": r"(?P<keep2>EARER[ \t]{1,4})" + _DIGIT + r"[A-Za-z0-9._~+/=-]{16,8192}",
    "uthorization": r"(?P<keep3>uthorization" + _IS + r"(?i:basic|token)[ \t]{1,4})"
    r"[A-Za-z0-9._~+/=-]{8,8192}",
    "pi-key": r"(?P<keep4>pi-key" + _IS + r")" + _DIGIT + r"[A-Za-z0-9._~+/=-]{16,8192}",
    "pi-Key": r"(?P<keep5>pi-Key" + _IS + r")" + _DIGIT + r"[A-Za-z0-9._~+/=-]{16,8192}",
    "://": r"(?P<keep6>://[^\s/:@\"'<>]{0,255}:)[^\s/@\"'<>]{1,1024}(?=@[^\s\"'<>])",
    "-----BEGIN ": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s:,.\\]|-(?!----)){40,12000}"
    r"(?:-----END [A-Z0-9 ]{0,40}-----)?",
}  # fmt: skip
#: What every text with such a shape holds; of `earer` two forms, for a longer word is found more quickly.
BEGINNINGS = frozenset((*(begin.encode() for begin in SHAPES if begin != "earer"), b"Bearer", b"bearer"))
#: A private key of which the end has not come yet.
OPEN_KEY = re.compile(rb"-----BEGIN(?: [A-Z0-9 -]{0,70})?(?:[A-Za-z0-9+/=\s:,.\\-]){0,13000}\Z")
#: Signs as agents' lines have them, the most frequent first; what is not named is rarer than all of these.
FREQUENT_BYTES = b" etaonisrlhdcumpfgybw\",vk.:_/-'I=x)(jzq0123456789TSACEPMRNDLBFOHWUGVYKJXQZ"
COMMON_BYTES = 21  #: so many of them are no good to look for
LONG_SIGN = 13


#: A sign, and how to look at one place, or from there on, for the words that it belongs to.
_SignTest = tuple[bytes, Callable[[bytes, int], re.Match[bytes] | None], Callable[[bytes, int], re.Match[bytes] | None]]


class _Patterns(Struct, frozen=True):
    begin: re.Pattern[bytes]
    whole: re.Pattern[bytes]
    exact: re.Pattern[bytes] | None


class Redactor:
    """Replaces secrets. Made once for a run, from the values that its agents are given."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._known: dict[bytes, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                self._known.setdefault(form, name)
        self.longest = max([LONGEST_SHAPE, *map(len, self._known)])
        self.over_lines = [form for form in self._known if b"\n" in form]

    @functools.cached_property
    def may_hold(self) -> Callable[[bytes], bool]:
        """Tells quickly whether bytes may hold a secret, also when they are JSON that tells of texts which do."""
        in_json = (_in_json(form.decode("utf-8", "surrogatepass"), plain=False) for form in self._known)
        shaped, known = multi_search(BEGINNINGS), multi_search(frozenset((*self._known, *in_json)))
        return lambda data: shaped(data) or known(data)

    @functools.cached_property
    def _patterns(self) -> _Patterns:
        # The longest first: where one value begins another, the whole is meant.
        exact = b"|".join(re.escape(form) for form in sorted(self._known, key=lambda form: (-len(form), form)))
        begins = "|".join(map(re.escape, SHAPES)).encode()
        shapes = "|".join(SHAPES.values()).encode()
        return _Patterns(
            begin=re.compile(exact + b"|" + begins if exact else begins),
            whole=re.compile(b"(?P<known>" + exact + b")|" + shapes if exact else shapes),
            exact=re.compile(exact) if exact else None,
        )

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        data = text.encode("utf-8", "surrogatepass")
        # Most text holds none: that is found out quickly, and the text itself comes back.
        return self.data(data).decode("utf-8", "surrogatepass") if self.may_hold(data) else text

    def value(self, value: T) -> T:
        """Return a value of any make without secrets in its texts; it is the same one where there are none."""
        return cast("T", self._value(value))

    def _value(self, value: Any) -> Any:  # noqa: ANN401 -- it is taken as it comes
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.data(value) if self.may_hold(value) else value
            case Struct():
                old = {name: getattr(value, name) for name in _texts(type(value))}
                new = {name: self._value(part) for name, part in old.items()}
                changed = {name: part for name, part in new.items() if part is not old[name]}
                return structs.replace(value, **changed) if changed else value
            case list() | tuple():
                parts = cast("list[Any] | tuple[Any, ...]", value)
                clean = [self._value(part) for part in parts]
                same = all(one is other for one, other in zip(parts, clean, strict=True))
                return parts if same else clean if isinstance(parts, list) else tuple(clean)
            case dict():
                return {self._value(key): self._value(part) for key, part in cast("dict[Any, Any]", value).items()}
            case _:
                return value

    def data(self, data: bytes) -> bytes:
        """Return the bytes without secrets; all else is as it was."""
        return b"".join(self.cut(data, len(data))[0])

    def cut(self, data: bytes, until: int) -> tuple[list[bytes], int]:
        """Return the bytes up to `until` without secrets, or up to a secret that lies across it, and where that is."""
        if not self.may_hold(data):
            return [data[:until]], until
        pieces: list[bytes] = []
        done = place = 0
        search, match = self._patterns.begin.search, self._patterns.whole.match
        while (begun := search(data, place)) and begun.start() < until:
            found = match(data, begun.start())
            if not found:
                place = begun.start() + 1
                continue
            if found.end() > until:
                until = found.start()
                break
            pieces += [data[done : found.start()], self._word(found)]
            done = place = found.end()
        return [*pieces, data[done:until]], until

    def stream(self) -> Stream:
        """Return a filter for bytes that come in pieces."""
        return Stream(self)

    def _word(self, match: re.Match[bytes]) -> bytes:
        groups = match.groupdict()
        if groups.get("known"):
            return self._named_mark(match)
        kept = next((part for name, part in groups.items() if name != "known" and part), b"")
        exact = self._patterns.exact
        return (exact.sub(self._named_mark, kept) if exact else kept) + b"[redacted]"

    def _named_mark(self, match: re.Match[bytes]) -> bytes:
        return f"[redacted {self._known[match.group()]}]".encode()


class Stream:
    """Takes secrets out of bytes that come in pieces, also one that is cut in two; holds back a line at most."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece; return what is sure by now."""
        data = self._pending + chunk
        longest = self._redactor.longest
        until = data.rfind(b"\n") + 1
        if len(data) - until > longest:  # a line without end: no secret is longer than what stays
            until = len(data) - longest
        until = min(until, self._open_secret_start(data, longest)) if until else 0
        if not until:
            self._pending = data
            return b""
        pieces, until = self._redactor.cut(data, until)
        self._pending = data[until:]
        return b"".join(pieces)

    def close(self) -> bytes:
        """Return the rest."""
        rest, self._pending = self._pending, b""
        return self._redactor.data(rest)

    def _open_secret_start(self, data: bytes, longest: int) -> int:
        """Return where a secret of several lines may have begun of which the end is still to come."""
        least = len(data)
        first = max(0, len(data) - longest)
        key = data.rfind(b"-----BEGIN", first)
        if key >= 0 and OPEN_KEY.match(data, key):
            least = key
        for form in self._redactor.over_lines:
            place = data.find(form[:1], max(first, len(data) - len(form) + 1))
            while 0 <= place < least:
                if form.startswith(data[place:]):
                    least = place
                    break
                place = data.find(form[:1], place + 1)
        return least


@functools.cache
def _texts(kind: type[Struct]) -> list[str]:
    """Return the fields of a struct that can hold any text: words of our own choice are not secrets."""
    return [field.name for field in structs.fields(kind) if "Literal" not in str(field.type)]


def passed_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are kept secret when a user passes them: all but ordinary words."""
    sure = likely_secrets(environment)
    return {name: value for name, value in environment.items() if name in sure or not ORDINARY.fullmatch(value)}


def likely_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose name says that their value is a secret."""
    return {name: environment[name] for name in environment if LIKELY.search(name)}


def _forms(value: str) -> Iterator[bytes]:
    """Yield a value as it may be written: plain, in JSON, in a URL, in base64, in hexadecimal."""
    value = value.strip()
    if len(value) < SHORTEST:
        return
    raw = value.encode("utf-8", "surrogatepass")
    yield raw
    for plain in (True, False):
        once = _in_json(value, plain=plain)
        yield once
        yield _in_json(once.decode("utf-8", "surrogatepass"), plain=plain)  # JSON inside JSON
    yield quote(raw, safe="").encode()
    yield quote(raw).encode()
    yield quote_plus(raw).encode()
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    yield from _in_base64(raw)
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line.encode("utf-8", "surrogatepass") for line in lines if len(line) >= 20)


def _in_json(value: str, *, plain: bool) -> bytes:
    return json.dumps(value, ensure_ascii=plain)[1:-1].encode("utf-8", "surrogatepass")


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield what of the value is in base64 text, wherever in it the value begins."""
    for before in range(3):
        padded = base64.b64encode(bytes(before) + raw)
        first = (0, 2, 3)[before]
        last = len(padded) - (0, 3, 2)[(before + len(raw)) % 3]
        inner = padded[first:last]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.translate(bytes.maketrans(b"+/", b"-_"))


@functools.lru_cache(maxsize=64)
def multi_search(words: frozenset[bytes]) -> Callable[[bytes], bool]:
    """Return a test that tells whether any of these words is in some bytes.

    One pattern of all of them would look closely at every sign. To find a single sign is a hundred times as quick, so
    the words are put into groups that have a rare one in common; most of those do not occur at all. Where one occurs
    often, a pattern that begins with it takes over. Long words need none: they are found as quickly without, and a
    pattern takes time to make.
    """
    short: dict[bytes, list[bytes]] = {}
    long: dict[bytes, list[bytes]] = {}
    for word in sorted(words):
        groups = short if len(word) < LONG_SIGN else long
        sign = _sign(word, groups)
        groups.setdefault(sign if sign is not None else word, []).append(word)
    looks = [(sign, re.compile(_pattern(sign, group))) for sign, group in short.items() if len(sign) == 1]
    tests = [(sign, pattern.match, pattern.search) for sign, pattern in looks]
    plain = [sign for sign in short if len(sign) > 1]
    rarest = {sign: [(*_two_rarest(word), word) for word in group] for sign, group in long.items()}

    def holds(data: bytes) -> bool:
        return _holds_short(data, tests, plain) or _holds_long(data, rarest)

    return holds


def _holds_short(data: bytes, tests: list[_SignTest], plain: list[bytes]) -> bool:
    # Each line of an agent comes by here, and loops are quicker than any().
    find, most = data.find, len(data) >> 11
    for sign, match, search in tests:
        place, left = find(sign), most
        while place >= 0:
            if left <= 0:
                if search(data, place):
                    return True
                break
            if match(data, place):
                return True
            place, left = find(sign, place + 1), left - 1
    for word in plain:  # noqa: SIM110
        if word in data:
            return True
    return False


def _holds_long(data: bytes, rarest: dict[bytes, list[tuple[bytes, bytes, bytes]]]) -> bool:
    for sign, group in rarest.items():
        if sign in data:
            for second, third, word in group:
                if second in data and third in data and word in data:
                    return True
    return False


def _pattern(sign: bytes, words: list[bytes]) -> bytes:
    """Return a pattern that begins with the sign, then looks back, then continues."""
    rests: list[bytes] = []
    for word in words:
        place = word.index(sign) + len(sign)
        back = b"(?<=" + re.escape(word[:place]) + b")" if place > len(sign) else b""
        rests.append(back + re.escape(word[place:]))
    return re.escape(sign) + b"(?:" + b"|".join(rests) + b")"


def _sign(word: bytes, groups: dict[bytes, list[bytes]]) -> bytes | None:
    """Return by which sign a word is looked for: one that is looked for anyway, or else its rarest, if it is rare."""
    ranks = {rank: bytes([sign]) for sign in word if (rank := _rank(sign)) >= COMMON_BYTES}
    rarest = sorted(ranks, reverse=True)
    return next((ranks[rank] for rank in rarest if ranks[rank] in groups), ranks[rarest[0]] if rarest else None)


def _two_rarest(word: bytes) -> tuple[bytes, bytes]:
    """Return two signs of a word that are rare: where one is not there, the word is not either."""
    first, *others = sorted(set(word), key=_rank, reverse=True)
    return bytes([first]), bytes(others[:1]) or bytes([first])


def _rank(sign: int) -> int:
    place = FREQUENT_BYTES.find(sign)
    return place if place >= 0 else len(FREQUENT_BYTES) + sign
