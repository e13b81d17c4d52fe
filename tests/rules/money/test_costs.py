"""What tokens cost: whose price holds, tiers, names nobody knows, and files that say nonsense."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.config.policies import price_list
from corral.model import Tokens
from corral.model.errors import BadRequest
from corral.model.events import Spent, Started
from corral.model.money import CostSource, CostSum, Price, PriceFile, PriceList, Tier
from corral.rules.money.costs import Prices, table
from tests.agents.reading import RECORDINGS, recording, told

NOW = 1_794_800_000.0
SHIPPED = price_list().shipped


def prices(own: dict[str, Price] | None = None) -> Prices:
    return Prices(PriceList(own=PriceFile(models=own or {}), shipped=SHIPPED), NOW)


def test_the_library_knows_todays_models_with_their_caches() -> None:
    cost = prices().cost("claude-sonnet-4-5", Tokens(1000, 100, 1000, 1000))
    assert cost.source == "computed"
    assert cost.usd == pytest.approx((1000 * 3 + 100 * 15 + 1000 * 0.3 + 1000 * 3.75) / 1e6)


def test_a_long_question_costs_more() -> None:
    short = prices().cost("claude-sonnet-4-5", Tokens(100_000, 1000)).usd or 0
    long = prices().cost("claude-sonnet-4-5", Tokens(300_000, 1000)).usd or 0
    assert long > 3 * short


def test_a_name_behind_a_provider_is_found() -> None:
    assert prices().cost("anthropic/claude-sonnet-4-5", Tokens(1000, 0)) == prices().cost(
        "claude-sonnet-4-5", Tokens(1000, 0)
    )


@pytest.mark.parametrize(("name", "each"), [("opus", (15, 75)), ("sonnet", (3, 15)), ("haiku", (0.25, 1.25))])
def test_the_shipped_table_is_for_names_the_library_lacks(name: str, each: tuple[float, float]) -> None:
    assert prices().cost(name, Tokens(1_000_000, 0)).usd == each[0]
    assert prices().cost(name, Tokens(0, 1_000_000)).usd == each[1]


def test_a_persons_own_price_comes_first() -> None:
    own = prices({"claude-*": Price(input=1.0, output=2.0), "claude-sonnet-*": Price(input=7.0, output=8.0)})
    assert own.cost("claude-sonnet-4-5", Tokens(1_000_000, 0)).usd == 7.0
    assert own.cost("claude-haiku-4-5", Tokens(1_000_000, 0)).usd == 1.0


def test_own_tiers() -> None:
    tier = Tier(above=1000, input=10.0, output=20.0)
    own = prices({"m": Price(input=1.0, output=2.0, tiers=(tier,))})
    assert own.cost("m", Tokens(1000, 1_000_000)).usd == pytest.approx(0.001 + 2.0)
    assert own.cost("m", Tokens(500, 1_000_000, 501)).usd == pytest.approx(1001 * 10 / 1e6 + 20.0)


@pytest.mark.parametrize("model", [None, "", "fake-model", "my-local-model", "x" * 500, "../etc"])
def test_what_nobody_knows_is_unknown_and_not_free(model: str | None) -> None:
    cost = prices().cost(model, Tokens(1000, 1000))
    assert (cost.usd, cost.source) == (None, "unknown")


def test_local_models_cost_nothing() -> None:
    assert prices().cost("qwen3", Tokens(1000, 1000), local=True).usd == 0.0


def test_what_cost_nothing_does_not_say_where_the_rest_comes_from() -> None:
    def paid(usd: float, source: CostSource) -> CostSum:
        return CostSum(
            agent="x", source=source, attempts=1, done=1, unknown=0, usd=usd, reserved_usd=0.0, notional_usd=0.0, tokens=0, seconds=1.0,
        )  # fmt: skip

    assert table([paid(0.5, "reported"), paid(0.0, "metered")], "agent").source == "reported"
    assert table([paid(0.5, "reported"), paid(0.1, "metered")], "agent").source == "metered"
    assert table([paid(0.0, "metered")], "agent").source == "metered"


def test_an_agent_that_tells_nothing_is_estimated_at_the_upper_end() -> None:
    assert (prices().usual("auto-claude").usd, prices().usual("auto-claude").source) == (8.0, "estimated")
    assert prices().usual("nobody").usd is None


tokens = st.builds(Tokens, *[st.integers(-5, 10**9)] * 4)


@given(tokens, st.sampled_from(["claude-sonnet-4-5", "gpt-5", "gemini-2.5-flash", "opus", "nobody"]))
def test_no_cost_is_negative_or_nan(used: Tokens, model: str) -> None:
    usd = prices().cost(model, used).usd
    assert usd is None or (usd >= 0 and math.isfinite(usd))


@pytest.mark.parametrize("value", ["-1.0", "nan", "inf"])
def test_a_file_with_no_price_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "corral").mkdir()
    (tmp_path / "corral" / "prices.toml").write_text(f"[models.m]\ninput = {value}\noutput = 1.0\n")
    with pytest.raises(BadRequest, match=r"prices.toml:2: a price is 0 or more"):
        price_list()


def test_commands_that_only_look_do_not_load_the_library() -> None:
    code = "import sys; from corral.frontends.cli import run_command_line as r; r(['ls']); print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


RECORDED_COSTS = ["claude"]


@pytest.mark.parametrize("name", RECORDED_COSTS)
def test_what_is_computed_is_what_the_real_program_reported(name: str) -> None:
    heard = told(name, recording(name))
    model = next(event.model for event in heard if isinstance(event, Started) and event.model)
    spent = [event for event in heard if isinstance(event, Spent)][-1]
    assert spent.usd is not None
    assert prices().cost(model, spent.tokens).usd == pytest.approx(spent.usd, rel=0.01)


def test_every_recording_that_reports_money_is_compared() -> None:
    reporting = [
        file.stem
        for file in sorted(RECORDINGS.iterdir())
        if any(isinstance(event, Spent) and event.usd is not None for event in told(file.stem, recording(file.stem)))
    ]
    assert reporting == RECORDED_COSTS


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("opus", "claude-3-opus"),
        ("sonnet", "claude-sonnet-4-0"),
        ("haiku", "claude-3-haiku"),
        ("claude-opus-*", "claude-opus-4-0"),
        ("claude-sonnet-*", "claude-sonnet-4-0"),
        ("claude-haiku-*", "claude-3-haiku"),
        ("gemini-*-flash", "gemini-1.5-flash"),
    ],
)
def test_the_dated_table_agrees_with_the_library(name: str, known: str) -> None:
    """Its names are none that the library has; its rates are those the library tells of the models that were meant."""
    assert {*SHIPPED.models} == {"opus", "sonnet", "haiku", "claude-opus-*", "claude-sonnet-*", "claude-haiku-*",
                                 "gemini-*-flash"}  # fmt: skip
    library, ours = Prices(PriceList(), NOW), SHIPPED.models[name]
    assert not library.knows(name)
    for tokens, rate in (
        (Tokens(1000), ours.input),
        (Tokens(0, 1000), ours.output),
        (Tokens(0, 0, 1000), ours.cache_read),
        (Tokens(0, 0, 0, 1000), ours.cache_write),
    ):
        if rate is not None:
            assert library.cost(known, tokens).usd == pytest.approx(1000 * rate / 1e6)
