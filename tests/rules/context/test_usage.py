"""How full a model's window is: by the agent's own word, or by what passed to its provider."""

import pytest
from genai_prices.data_snapshot import get_snapshot

from corral.attempt import turns
from corral.model import Tokens
from corral.rules.context.usage import STANDARD, Gauge, window_of
from corral.rules.money import costs

TABLE = {"claude": 200_000, "gpt-5": 272_000, "gpt-5-chat": 128_000, "Mine": 1000}


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gpt-5-codex", 272_000),
        ("gpt-5-chat-latest", 128_000),
        ("openrouter/openai/gpt-5", 272_000),
        ("Mine", 1000),
        ("mine-too", 1000),
        ("nobody-knows", STANDARD),
        (None, STANDARD),
    ],
)
def test_the_window_of_a_model(model: str | None, tokens: int) -> None:
    assert window_of(model, TABLE) == tokens


def test_our_table_is_dated_and_the_persons_comes_first() -> None:
    assert turns.size_table().dated >= "2026-11"
    for own in ({"gemini-2.5-pro": 32_000}, {"gemini": 32_000}):
        assert window_of("gemini-2.5-pro", turns.load_windows(own)) == 32_000
    assert window_of("claude-nobody-knows-9", turns.load_windows({})) == 200_000


def test_windows_are_the_librarys_where_it_knows_a_model() -> None:
    """None of ours repeats or hides what the library says; what a model keeps for its answer is not for input."""
    known = turns.load_windows({})
    assert [name for name in turns.size_table().windows if costs.context_window(name)] == []
    models = {model.id: model.context_window for provider in get_snapshot().providers for model in provider.models
              if provider.id in ("anthropic", "openai", "google") and model.context_window}  # fmt: skip
    assert len(models) > 50
    for name, tokens in models.items():
        if costs.context_window(name) == tokens:  # another provider may sell one of that name
            kept = 128_000 if name.startswith("gpt-5") and tokens >= 400_000 else 0
            assert window_of(name, known) == tokens - kept, name
    assert window_of("claude-sonnet-4-5[1m]", known) == 1_000_000


def test_requests_are_metered_one_by_one_not_added_up() -> None:
    gauge = Gauge(0.8, TABLE, "Mine")
    for _ in range(5):
        gauge.note_metered(None, Tokens(input=100, cache_read=600))  # as Anthropic tells it: first what goes in
        gauge.note_metered(None, Tokens(output=50))
    assert gauge.tokens == 750
    assert not gauge.over
    gauge.note_metered(None, Tokens(input=790, output=20))  # as OpenAI tells it: all at once
    assert gauge.over
    assert "81 % of the window of Mine (1000)" in gauge.words()


def test_the_agents_own_word_counts_more() -> None:
    gauge = Gauge(0.8, TABLE, "Mine")
    gauge.note_reported(100)
    gauge.note_metered(None, Tokens(input=990))  # of an agent that it started itself
    assert not gauge.over
    gauge.note_reported(790, 900)
    assert gauge.over


def test_nothing_is_full_at_no_share_at_all() -> None:
    gauge = Gauge(0.0, TABLE, "Mine")
    gauge.note_reported(10_000)
    assert not gauge.over


@pytest.mark.parametrize("tokens", [-5, 1 << 60])
def test_counts_that_are_none(tokens: int) -> None:
    gauge = Gauge(0.8, TABLE)
    gauge.note_reported(tokens)
    assert gauge.tokens == 0
