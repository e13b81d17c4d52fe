"""Tokens and money as an agent reports them: numbers out of range are limited or unknown."""

from __future__ import annotations

from corral.model import Tokens
from corral.model.events import Spent
from corral.model.values import token_count, usd_or_none


def reported_tokens(
    whole: object = 0,
    output: object = 0,
    cache_read: object = 0,
    cache_write: object = 0,
    *,
    counts_cached: bool = False,
) -> Tokens:
    """Return what a report says; `counts_cached`: its input counts the tokens read from or written to a cache too."""
    read, written = token_count(cache_read), token_count(cache_write)
    asked = max(0, token_count(whole) - (read + written if counts_cached else 0))
    return Tokens(asked, token_count(output), read, written)


def within_limits(spent: Spent) -> Spent:
    """Return a report of a program of our own with its numbers limited."""
    reported = spent.tokens
    tokens = reported_tokens(reported.input, reported.output, reported.cache_read, reported.cache_write)
    return Spent(tokens, usd_or_none(spent.usd))


def total_usd(before: float | None, more: object) -> float | None:
    """Add a price to a sum; None from the first one on that is no price."""
    added = usd_or_none(more)
    return None if before is None or added is None else usd_or_none(before + added)
