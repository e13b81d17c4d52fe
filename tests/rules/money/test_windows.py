"""How the limits of an account stand, from the heads of a provider's answers."""

import pytest

from corral.rules.money.quota import back_at, header_windows

NOW = 1_790_000_000.0


def told(*fields: tuple[str, str]) -> list[tuple[str, float | None, float | None]]:
    return [(each.name, each.used, each.resets) for each in header_windows("claude@work", fields, NOW)]


def test_the_windows_of_a_subscription() -> None:
    assert told(
        ("Anthropic-Ratelimit-Unified-5h-Utilization", "0.42"),
        ("anthropic-ratelimit-unified-5h-reset", "1790003600"),
        ("anthropic-ratelimit-unified-7d-utilization", "1.3"),
        ("anthropic-ratelimit-unified-7d-reset", "1790400000"),
        ("anthropic-ratelimit-unified-status", "allowed"),
    ) == [("5h", 0.42, 1790003600.0), ("7d", 1.0, 1790400000.0)]


def test_requests_and_tokens_of_a_key() -> None:
    assert told(
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "40"),
        ("anthropic-ratelimit-requests-reset", "2026-09-21T15:00:00Z"),
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "250"),
        ("x-ratelimit-reset-tokens", "6m0.5s"),
    ) == [("requests", pytest.approx(0.2), 1790002800.0), ("tokens", 0.75, NOW + 360.5)]


def test_the_windows_of_codex() -> None:
    assert told(
        ("x-codex-primary-used-percent", "12.5"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-after-seconds", "60"),
        ("x-codex-secondary-used-percent", "90"),
        ("x-codex-secondary-window-minutes", "10080"),
    ) == [("5h", 0.125, NOW + 60), ("7d", 0.9, None)]


@pytest.mark.parametrize("value", ["", "-1", "NaN", "inf", "much", "1e9", "9" * 400])
def test_what_is_no_number_tells_nothing(value: str) -> None:
    assert told(("anthropic-ratelimit-unified-5h-utilization", value)) == []
    assert back_at([("retry-after", value)], NOW) is None


def test_when_a_refused_request_may_be_made_again() -> None:
    assert back_at([("Retry-After", "7200")], NOW) == NOW + 7200
    assert back_at([("content-type", "text/plain")], NOW) is None
