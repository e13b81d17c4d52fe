"""Limits of numbers: what agents and providers report, and what users may ask for."""

from __future__ import annotations

import math

MOST_TOKENS = 2**53
MOST_USD = 1e6  #: of one attempt; a larger price is no price
MOST_DIGITS = 400
MOST_RETRIES = 100
MOST_ROUNDS = 10_000  #: of a node that is repeated until something holds


def usd_or_none(value: object) -> float | None:
    """Return a price in dollars; None where it is no number, negative, infinite or above `MOST_USD`."""
    number = _number(value)
    return number if number is not None and 0.0 <= number <= MOST_USD else None


def token_count(value: object) -> int:
    """Return a count of tokens between 0 and `MOST_TOKENS`; 0 for what is no number, and for infinity."""
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, 0), MOST_TOKENS)
    number = _number(value)
    return 0 if number is None or math.isinf(number) else int(min(max(number, 0.0), float(MOST_TOKENS)))


def _number(value: object) -> float | None:
    """Return what a report says as a float; None for NaN and for what is no number. Infinity stays infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > MOST_DIGITS:
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf
    except ValueError:
        return None
    return None if math.isnan(number) else number
