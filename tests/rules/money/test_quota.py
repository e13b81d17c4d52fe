"""When a quota is back, from words of the programs and their providers: many quoted from reports, others in their forms."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.rules.money import quota

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HERE = timezone(timedelta(hours=2))  # of this machine


def zones(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else HERE
    except (KeyError, ValueError, OSError):
        return None


def back(message: str, now: datetime = NOW) -> datetime | None:
    found = quota.until(message, now.timestamp(), zones)
    return None if found is None else datetime.fromtimestamp(found, UTC)


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)


SAID = {
    # claude
    "Claude AI usage limit reached|1782928800": datetime.fromtimestamp(1782928800, UTC),
    "You've hit your session limit · resets 8:30pm (Asia/Tokyo)": later(hours=23, minutes=30),
    "You've hit your session limit · resets 12:50am (America/Los_Angeles)": later(hours=19, minutes=50),
    "You've hit your session limit · resets 3pm (America/Bogota)": later(hours=8),
    "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).": later(hours=6),
    "Claude usage limit reached. Your limit will reset at 12am.": later(hours=10),
    "5-hour limit reached ∙ resets 3pm (Europe/Berlin)": later(hours=1),
    "You've hit your weekly limit · resets Jul 5, 1am (Europe/Berlin)": datetime(2026, 7, 4, 23, tzinfo=UTC),
    "API Error: Request rejected (429) · This may be a temporary capacity issue; retry after 30s": later(seconds=30),
    # codex
    "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11 minutes.": later(
        days=5, hours=22, minutes=11
    ),
    "You've hit your usage limit. Try again in 3 hours 2 minutes.": later(hours=3, minutes=2),
    "You've hit your usage limit. Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or try again at Jul 5th, 2026 8:19 PM.": datetime(
        2026, 7, 5, 18, 19, tzinfo=UTC
    ),
    "You've hit your usage limit. To get more access now, try again at 8:19 PM.": later(hours=6, minutes=19),
    '{"error":{"type":"usage_limit_reached","plan_type":"free","resets_at":1782928800,"resets_in_seconds":600}}': datetime.fromtimestamp(
        1782928800, UTC
    ),
    '{"error":{"type":"usage_limit_reached","resets_in_seconds":602705}}': later(seconds=602705),
    "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000. Please try again in 6.5s. Visit https://platform.openai.com": later(
        seconds=6.5
    ),
    "Rate limit reached. Please try again in 1m26.4s.": later(seconds=86.4),
    "Rate limit reached. Please try again in 120ms.": later(milliseconds=120),
    # gemini
    "You exceeded your current quota. Please retry in 34.074824224s.": later(seconds=34.074824),
    '"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]': later(seconds=34),
    "You have exhausted your capacity on this model. Your quota will reset after 2h15m10s.": later(
        hours=2, minutes=15, seconds=10
    ),
    "Usage limit reached for gemini-3-flash-preview. Access resets at 10:57 PM GMT-3.": later(hours=13, minutes=57),
    # copilot
    "Sorry, you've hit a rate limit that restricts the number of Copilot model requests you can make within a specific time period. Please try again in 51 hours. Please review our Terms of Service": later(
        hours=51
    ),
    "Please try again in 15 hours 23 minutes. Please review our Terms": later(hours=15, minutes=23),
    "Sorry, you have been rate-limited. Please wait 2 minutes before trying again or consider switching to Auto.": later(
        minutes=2
    ),
    "You've reached your weekly rate limit. Please wait for your limit to reset on July 20, 2026 at 2:00 AM or switch to auto model": datetime(
        2026, 7, 20, 0, 0, tzinfo=UTC
    ),
    # headers and times as programs write them
    "429 Too Many Requests; Retry-After: 30": later(seconds=30),
    "quota exceeded, reset at 1782928800": datetime.fromtimestamp(1782928800, UTC),
    "limit resets at 2026-07-01T15:30:00Z": later(hours=3, minutes=30),
    "limit resets at 2026-07-01T15:30:00+02:00": later(hours=1, minutes=30),
    "limit resets at 2026-07-01 15:30": later(hours=1, minutes=30),
}


@pytest.mark.parametrize("message", SAID, ids=lambda text: text[:60])
def test_what_they_say(message: str) -> None:
    found = back(message)
    assert found is not None
    assert abs((found - SAID[message]).total_seconds()) < 0.01


@pytest.mark.parametrize(
    "message",
    [
        "",
        "This request would exceed your account's rate limit. Please try again later.",
        "You exceeded your current quota, please check your plan and billing details.",
        "You've hit your usage limit, or wait for limits to reset (every 5h and every week.).",
        "resets 3pm (Middle/Earth)",
        "resets at 25:99",
        "Quota exceeded for 'Gemini 2.5 Pro Requests per day per user per tier'",
    ],
)
def test_what_they_do_not_say_is_not_made_up(message: str) -> None:
    assert back(message) is None


def test_a_time_that_is_just_over_is_not_tomorrows() -> None:
    words = "You've hit your session limit · resets 3pm (Europe/Berlin)"
    now = datetime(2026, 7, 1, 13, 5, tzinfo=UTC)
    assert back(words, now) == now + timedelta(seconds=60)
    evening = datetime(2026, 7, 1, 20, 0, tzinfo=UTC)
    assert back(words, evening) == datetime(2026, 7, 2, 13, 0, tzinfo=UTC)


def test_said_in_december_of_january() -> None:
    now = datetime(2026, 12, 30, 12, 0, tzinfo=UTC)
    assert back("resets Jan 2, 9am (UTC)", now) == datetime(2027, 1, 2, 9, tzinfo=UTC)


@given(st.text() | st.sampled_from(list(SAID)).flatmap(lambda text: st.integers(0, len(text)).map(lambda n: text[n:])))
def test_it_never_raises_and_never_looks_back(message: str) -> None:
    found = quota.until(message, NOW.timestamp(), zones)
    assert found is None or found > NOW.timestamp()
