"""Lengths of time that cannot be used are refused with a hint that can."""

import re

import pytest

from corral.config.times import duration
from corral.model.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("9" * 30 + "h", "it is less than 1000000000s, about thirty years"),
        ("9" * 30 + " days", "it is less than 1000000000s, about thirty years"),
        ("9" * 500 + "min", "it is less than 1000000000s, about thirty years"),
        ("0h", "write it like 90s, 20m or 2h"),
        ("soon", "write it like 90s, 20m or 2h"),
        ("5 minutes", "write it as 5m"),
        ("2d", "write it as 48h"),
    ],
)
def test_a_length_of_time_that_is_refused_has_a_hint_that_works(text: str, hint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        duration(text, "--timeout")
    assert refused.value.hint == hint
    for named in re.findall(r"as (\w+)$", hint):
        assert duration(named, "--timeout") > 0
