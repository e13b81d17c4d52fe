"""Reported numbers stay within what can be stored and added up."""

from __future__ import annotations

import math

import pytest

from corral.model.values import MOST_TOKENS, MOST_USD, token_count, usd_or_none

BIG = 10**400


@pytest.mark.parametrize(
    ("reported", "usd"),
    [
        (0, 0.0),
        (0.61, 0.61),
        ("0.61", 0.61),
        (MOST_USD, MOST_USD),
        (MOST_USD * 1.001, None),
        (1e308, None),
        (BIG, None),
        (-BIG, None),
        (-0.01, None),
        (math.inf, None),
        (-math.inf, None),
        (math.nan, None),
        ("nan", None),
        ("9" * 5000, None),
        ("free", None),
        (True, None),
        (None, None),
        ([1], None),
    ],
)
def test_price(reported: object, usd: float | None) -> None:
    assert usd_or_none(reported) == usd


@pytest.mark.parametrize(
    ("reported", "tokens"),
    [
        (0, 0),
        (12, 12),
        (12.9, 12),
        ("12", 12),
        (2**63, MOST_TOKENS),
        (1e300, MOST_TOKENS),
        (BIG, MOST_TOKENS),
        (-BIG, 0),
        (-1000005, 0),
        (math.inf, 0),
        ("inf", 0),
        ("1e999", 0),
        (-math.inf, 0),
        (math.nan, 0),
        ("99999999999999999999", MOST_TOKENS),
        ("9" * 5000, 0),
        (True, 0),
        (None, 0),
        ({}, 0),
    ],
)
def test_tokens(reported: object, tokens: int) -> None:
    assert token_count(reported) == tokens
