"""`errors` of a command agent: which words of a failure mean which class; only patterns that end in time are taken."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

PARSER: Any = importlib.import_module("re._parser")  #: of the standard library; it has no public name
CODES: Any = importlib.import_module("re._constants")

#: what a program can tell of itself; the others are the engine's own findings
CLASSES = (
    "rate_limit", "overloaded", "network", "auth", "not_found", "context_too_long", "refused", "denied", "tls",
    "bad_output", "crash",
)  # fmt: skip
MOST_PATTERN = 500
LINE = 200  #: characters of a line that are looked at
MOST_WAYS = 100_000  #: in which a pattern may try to fit at one place of a line; two open repeats need 40,000


def wrong_with(errors: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with a table of patterns, and what helps; None if nothing is."""
    for kind, pattern in errors.items():
        if kind not in CLASSES:
            return f"`{kind}` is not a class of failures", "known: " + ", ".join(CLASSES)
        try:
            re.compile(pattern)
            ways = _ways(PARSER.parse(pattern))
        except (re.error, RecursionError, OverflowError) as error:
            return f"the pattern of `{kind}` is none: {error}", 'as in {rate_limit = "429|rate limit"}'
        if not pattern or len(pattern) > MOST_PATTERN:
            return f"the pattern of `{kind}` is empty or longer than {MOST_PATTERN} characters", "name a few words"
        if ways > MOST_WAYS:
            return f"the pattern of `{kind}` could take for ever", "at most two of * and +, none inside another"
    return None


def _ways(parsed: Iterable[Any]) -> int:
    """Bound the ways in which a pattern may try to fit at one place: repeats multiply, alternatives add."""
    found = 1
    for code, given in parsed:
        if code in (CODES.MAX_REPEAT, CODES.MIN_REPEAT):
            most = min(int(given[1]), LINE)
            inner = min(_ways(given[2]), MOST_WAYS + 1)
            found *= (most - min(int(given[0]), most) + 1) * inner**most
        elif code is CODES.BRANCH:
            found *= sum(_ways(each) for each in given[1])
        else:
            parts = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
            for part in parts:
                found *= _ways(part) if isinstance(part, PARSER.SubPattern) else 1
        found = min(found, MOST_WAYS + 1)
    return found
