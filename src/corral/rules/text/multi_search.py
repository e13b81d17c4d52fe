"""Find out quickly whether bytes hold any of many words: each is looked for by a sign of it that is rare."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

#: Signs as agents' lines have them, the most frequent first; what is not named is rarer than all of these.
FREQUENT = b" etaonisrlhdcumpfgybw\",vk.:_/-'=x)(jzq0123456789TSAICEPMRNDLBFOHWUGVYKJXQZ"
COMMON = 21  #: so many of them are no good to look for
LONG = 13


@functools.lru_cache(maxsize=64)
def sieve(words: frozenset[bytes]) -> Callable[[bytes], bool]:
    """Return a test that tells whether any of these words stands in some bytes.

    One pattern of all of them would look closely at every sign. A pattern of a single first sign is ten times as
    quick, so the words are put into groups that have a rare one in common; most of those do not occur at all. Long
    words need no pattern: they are found as quickly without, and a pattern takes time to make.
    """
    short: dict[bytes, list[bytes]] = {}
    long: dict[bytes, list[bytes]] = {}
    for word in sorted(words):
        groups = short if len(word) < LONG else long
        sign = _sign(word, groups)
        groups.setdefault(sign if sign is not None else word, []).append(word)
    looks = [(sign, re.compile(_pattern(sign, group)).search) for sign, group in short.items()]

    def holds(data: bytes) -> bool:
        # Each line of an agent comes by here, and this is quicker than any().
        for sign, search in looks:
            if sign in data and search(data):
                return True
        for sign, group in long.items():
            if sign in data:
                for word in group:
                    if word in data:
                        return True
        return False

    return holds


def _pattern(sign: bytes, words: list[bytes]) -> bytes:
    """Return a pattern that begins with the sign, then looks back, then goes on."""
    rests: list[bytes] = []
    for word in words:
        place = word.index(sign) + len(sign)
        back = b"(?<=" + re.escape(word[:place]) + b")" if place > len(sign) else b""
        rests.append(back + re.escape(word[place:]))
    return re.escape(sign) + b"(?:" + b"|".join(rests) + b")"


def _sign(word: bytes, groups: dict[bytes, list[bytes]]) -> bytes | None:
    """Return by which sign a word is looked for: one that is looked for anyway, or else its rarest, if it is rare."""
    ranks = {rank: bytes([sign]) for sign in word if (rank := _rank(sign)) >= COMMON}
    rarest = sorted(ranks, reverse=True)
    return next((ranks[rank] for rank in rarest if ranks[rank] in groups), ranks[rarest[0]] if rarest else None)


def _rank(sign: int) -> int:
    place = FREQUENT.find(sign)
    return place if place >= 0 else len(FREQUENT) + sign
