"""Find out quickly whether bytes hold any of many words: each is looked for by a sign of it that is rare."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

#: Signs as agents' lines have them, the most frequent first; what is not named is rarer than all of these.
FREQUENT = b" etaonisrlhdcumpfgybw\",vk.:_/-'=x)(jzq0123456789TSAICEPMRNDLBFOHWUGVYKJXQZ"
COMMON = 21  #: so many of them are no good to look for


@functools.lru_cache(maxsize=64)
def sieve(words: frozenset[bytes]) -> Callable[[bytes], bool]:
    """Return a test that tells whether any of these words stands in some bytes.

    One pattern of all of them would look closely at every sign. A pattern of a single first sign is ten times as
    quick, so the words are put into groups that have a rare one in common; most of those do not occur at all.
    """
    groups: dict[bytes, list[bytes]] = {}
    plain: list[bytes] = []
    for word in sorted(words):
        sign = _sign(word, groups)
        if sign is None:
            plain.append(word)
            continue
        place = word.index(sign)
        before, after = re.escape(word[: place + 1]), re.escape(word[place + 1 :])
        groups.setdefault(sign, []).append((b"(?<=" + before + b")" if place else b"") + after)
    looks = [
        (sign, re.compile(re.escape(sign) + b"(?:" + b"|".join(rests) + b")").search) for sign, rests in groups.items()
    ]

    def holds(data: bytes) -> bool:
        for sign, search in looks:
            if sign in data and search(data):
                return True
        for word in plain:  # noqa: SIM110
            if word in data:
                return True
        return False

    return holds


def _sign(word: bytes, groups: dict[bytes, list[bytes]]) -> bytes | None:
    """Return by which sign a word is looked for: one that is looked for anyway, or else its rarest, if it is rare."""
    ranks = {rank: bytes([sign]) for sign in word if (rank := _rank(sign)) >= COMMON}
    rarest = sorted(ranks, reverse=True)
    return next((ranks[rank] for rank in rarest if ranks[rank] in groups), ranks[rarest[0]] if rarest else None)


def _rank(sign: int) -> int:
    place = FREQUENT.find(sign)
    return place if place >= 0 else len(FREQUENT) + sign
