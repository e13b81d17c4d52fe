"""Cron expressions: the next moment, found as a slow search finds it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.config import times
from corral.model.errors import BadRequest
from tests.rig.tries import tries

AT = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)  # a Saturday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-03-14T15:10"),
        ("*/15 * * * *", "2026-03-14T15:15"),
        ("0 9-17 * * mon-fri", "2026-03-16T09:00"),
        ("30 4 1,15 * *", "2026-03-15T04:30"),
        ("0 0 29 feb *", "2028-02-29T00:00"),
        ("0 12 13 * fri", "2026-03-20T12:00"),
        ("0 0 * * 7", "2026-03-15T00:00"),
        ("5/20 * * * *", "2026-03-14T15:25"),
        ("@monthly", "2026-04-01T00:00"),
        ("@hourly", "2026-03-14T16:00"),
    ],
)
def test_the_next_moment(text: str, expected: str) -> None:
    assert times.parse(text).next(AT).isoformat()[:16] == expected


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "a * * * *", "*/0 * * * *",
             "5-1 * * * *", "0 0 31 2 *", "* * * * mon-", "-1 * * * *", "@never"],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str) -> None:
    with pytest.raises(BadRequest):
        times.parse(text)


@given(
    st.integers(0, 59), st.integers(0, 23), st.integers(0, 6),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001
)  # fmt: skip
@settings(max_examples=tries(50), deadline=None)
def test_no_earlier_minute_fits(minute: int, hour: int, weekday: int, after: datetime) -> None:
    found = times.parse(f"{minute} {hour} * * {weekday}").next(after)
    assert after < found <= after + timedelta(days=8)
    assert (found.minute, found.hour, found.isoweekday() % 7) == (minute, hour, weekday)


def test_time_zones_are_heeded() -> None:
    berlin = datetime(2026, 3, 28, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    found = times.parse("30 8 * * *").next(berlin)  # the night between has a change of the clock
    assert found.astimezone(UTC).isoformat()[:16] == "2026-03-29T06:30"
