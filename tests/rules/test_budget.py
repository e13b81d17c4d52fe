"""Limits by the calendar: days and months of a time zone, clocks that jump; how much is held, charged and asked for."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model import Cost
from corral.money import Budget, Limit, Refusal
from corral.rules import budget

BERLIN, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")
WHO = budget.Who(run="r", node="main", agent="claude", repo="/r")


def at(zone: ZoneInfo, *parts: int) -> float:
    return datetime(*parts, tzinfo=zone).timestamp()  # type: ignore[arg-type]


def test_a_day_is_the_day_of_the_zone() -> None:
    now = at(BERLIN, 2026, 11, 16, 0, 30)
    assert budget.since("day", now, BERLIN) == at(BERLIN, 2026, 11, 16)
    assert budget.since("day", now, UTC) == datetime(2026, 11, 15, tzinfo=UTC).timestamp()


def test_days_with_23_and_25_hours() -> None:
    spring, autumn = at(BERLIN, 2026, 3, 29, 12), at(BERLIN, 2026, 10, 25, 12)
    for now, hours in ((spring, 23), (autumn, 25)):
        end = budget.until("day", now, BERLIN)
        assert end is not None
        assert end - budget.since("day", now, BERLIN) == hours * 3600


@pytest.mark.parametrize(
    ("month", "following"),
    [((2026, 1, 31), (2026, 2, 1)), ((2026, 12, 31), (2027, 1, 1)), ((2028, 2, 29), (2028, 3, 1))],
)
def test_the_end_of_a_month(month: tuple[int, int, int], following: tuple[int, int, int]) -> None:
    now = at(BERLIN, *month, 23, 59)
    assert budget.until("month", now, BERLIN) == at(BERLIN, *following)
    assert budget.since("month", now + 120, BERLIN) == at(BERLIN, *following)


zones = st.sampled_from([BERLIN, APIA, ZoneInfo("America/St_Johns"), ZoneInfo("Asia/Kathmandu"), UTC])


@given(st.floats(0, 4e9), zones, st.sampled_from(["day", "month", "ceiling"]))
def test_now_lies_in_its_window(now: float, zone: ZoneInfo, window: str) -> None:
    start, end = budget.since(window, now, zone), budget.until(window, now, zone)  # type: ignore[arg-type]
    assert end is not None
    assert start <= now < end


def test_which_limits_bind() -> None:
    limits = [
        Limit(window="day", usd=10),
        Limit(window="day", usd=1, agent="codex"),
        Limit(window="month", usd=5, agent="claude"),
        Limit(window="run", usd=2),
        Limit(window="day", usd=3, repo="/other"),
        Limit(window="ceiling", usd=300),
    ]
    who = budget.Who(run="child", node="main", agent="claude", repo="/r", ancestors=("parent", "root"))
    found = budget.bounds(who, limits, 1e9, BERLIN)
    assert [(bound.limit.window, bound.run) for bound in found] == [
        ("ceiling", "child"), ("day", "child"), ("month", "child"), ("run", "child"), ("run", "parent"), ("run", "root"),
    ]  # fmt: skip


def test_how_much_is_held() -> None:
    known = Budget(unknown_cost_usd=1.0)
    assert budget.to_hold(None, None, [], known) == 1.0
    assert budget.to_hold(0.5, None, [], known) == 0.5
    assert budget.to_hold(None, 0.2, [9.0] * 10, known) == 0.2
    assert budget.to_hold(None, None, [n / 10 for n in range(1, 11)], known) == 0.9
    assert budget.to_hold(-1.0, None, [], known) == 0.0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values(values: list[float], part: float) -> None:
    found = budget.quantile(values, part)
    assert found in values or found == 0.0


@pytest.mark.parametrize("usd", [None, float("nan"), float("inf"), -1.0])
def test_what_is_no_cost_is_charged_at_what_was_held(usd: float | None) -> None:
    assert budget.charge(Cost(usd, "reported"), 3.0, Budget()) == 3.0
    assert budget.charge(Cost(usd, "reported"), 0.0, Budget(unknown_cost_usd=0.7)) == 0.7
    assert budget.charge(Cost(0.0, "computed"), 3.0, Budget()) == 0.0


def test_a_person_is_told_the_numbers() -> None:
    refusal = Refusal(Limit(window="day", usd=10, agent="claude"), 9.5, 0.25, 1.0)
    words = budget.words(refusal)
    for part in ("the budget of the day of claude is $10", "$9.50 is spent", "$0.25 is held for others", "$1.00"):
        assert part in words
    asked = budget.ask(WHO, "r-1", refusal, 2.0, 100.0)
    assert (asked.default, asked.about, asked.choices[-1]) == ("stop", "budget", "stop")
    assert budget.amount(asked.choices[0], 9.0) == budget.amount("raise", float(asked.key.split("/")[3]))
    assert asked.deadline > 100.0
    ceiling = budget.ask(WHO, "r-1", Refusal(Limit(window="ceiling", usd=1), 1, 0, 1), 2.0, 100.0)
    assert "budget set --ceiling" in ceiling.context


@pytest.mark.parametrize(
    ("said", "usd"),
    [
        ("yes", 2.0),
        ("N", 0.0),
        ("3.5", 3.5),
        ("$4", 4.0),
        ("5 USD", 5.0),
        ("maybe", None),
        ("-3", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_how_an_answer_is_read(said: str, usd: float | None) -> None:
    assert budget.amount(said, 2.0) == usd
