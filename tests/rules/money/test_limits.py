"""Limits by the calendar: days and months of a time zone, clocks that jump; how much is held, charged and asked for."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from corral.model import Cost
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.model.money import Budget, Expected, Limit, LimitBalance, Refusal
from corral.rules.money import limits as budget

BERLIN, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")
WHO = budget.Spender(run="r", node="main", agent="claude", repo="/r")


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
    who = budget.Spender(run="child", node="main", agent="claude", repo="/r", ancestors=("parent", "root"))
    found = budget.bounds(who, limits, 1e9, BERLIN)
    assert [(bound.limit.window, bound.run) for bound in found] == [
        ("ceiling", "child"), ("day", "child"), ("month", "child"), ("run", "child"), ("run", "parent"), ("run", "root"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "limit"),
    [
        ({"task": Task(prompt="x", budget_usd=1.0)}, None),  # the task's own limit says the same
        ({"task": Task(prompt="x", budget_usd=2.0)}, 1.0),
        ({"task": Task(prompt="x"), "rivals": (AgentChoice("b"),)}, 1.0),
        ({"task": Task(prompt="x", budget_usd=1.0), "for_each": "a.output"}, 1.0),  # the task's is of each item
        ({"task": Task(prompt="x", budget_usd=1.0), "items": (1, 2, 3)}, 1.0),
    ],
)
def test_a_run_of_one_node_has_a_limit(node: dict[str, Any], limit: float | None) -> None:
    flow = Flow(name="f", strategy="flow", nodes=(Node(id="a", **node),), budget_usd=1.0)
    assert budget.of_run(flow) == limit


def test_how_much_is_reserved() -> None:
    known = Budget(unknown_cost_usd=1.0)
    assert budget.to_reserve(None, [], known) == (1.0, "assumed")
    assert budget.to_reserve(None, [0.1, 0.1], known) == (1.0, "assumed")
    assert budget.to_reserve(None, [0.1, 3.0], known) == (3.0, "assumed")  # one that cost more says more
    assert budget.to_reserve(0.2, [9.0] * 10, known) == (0.2, "fixed")
    assert budget.to_reserve(None, [1e5], known) == (10.0, "assumed")  # one bad number is no price
    assert budget.to_reserve(None, [0.1, 0.1, 1e5, 0.2], known) == (10.0, "usual")
    assert budget.to_reserve(None, [30.0, 40.0], known) == (40.0, "assumed")
    assert budget.to_reserve(None, [0.5], Budget(unknown_cost_usd=0.0)) == (0.5, "assumed")
    assert budget.to_reserve(None, [n / 10 for n in range(1, 11)], known) == (0.9, "usual")


def room(
    usd: float = 1.0, spent: float = 0.0, reserved: float = 0.0, at_work: float = 0.0, window: str = "run"
) -> LimitBalance:
    limit = Limit(window=window, usd=usd)  # type: ignore[arg-type]
    return LimitBalance(limit=limit, spent=spent, reserved=reserved, at_work=at_work, others=int(at_work > 0))


@pytest.mark.parametrize(
    ("found", "usd", "expected", "granted", "waits"),
    [
        (room(), 0.5, "assumed", 0.5, False),
        (room(reserved=0.5, at_work=0.5), 0.5, "assumed", 0.5, False),
        (room(reserved=1.0, at_work=1.0), 0.5, "assumed", None, True),  # never a share of it: it waits
        (room(spent=0.6, reserved=0.4, at_work=0.4), 0.5, "usual", None, False),  # all they give back is too little
        (room(spent=1.0), 0.5, "assumed", None, False),
        (room(spent=0.7), 0.5, "assumed", 0.3, False),  # a guess: alone, it may try with what is left
        (room(spent=0.7), 0.5, "usual", None, False),  # it is known to cost more than is left
        (room(usd=0.01), 1.0, "usual", 0.01, False),  # a limit below every price: one, stopped in flight
        (room(usd=0.01, reserved=0.01, at_work=0.01), 1.0, "assumed", None, True),
        (room(usd=0.4), 0.5, "fixed", None, False),
        (room(usd=0.4, spent=0.1, window="day"), 0.5, "usual", None, False),
        (room(usd=0.4, window="day"), 0.5, "usual", 0.4, False),
        (room(usd=0.0, window="halt"), 0.0, "fixed", None, False),
        (room(spent=1.0), 0.0, "fixed", 0.0, False),
        (room(spent=1.5), 0.0, "fixed", None, False),
    ],
)
def test_what_a_limit_grants(
    found: LimitBalance, usd: float, expected: Expected, granted: float | None, waits: bool
) -> None:
    got = found.grant(usd, expected)
    assert got == (None if granted is None else pytest.approx(granted))
    assert (granted is None and found.may_wait(usd, expected)) is waits


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values(values: list[float], part: float) -> None:
    found = budget.quantile(values, part)
    assert found in values or found == 0.0


def test_none_starts_with_less_than_such_attempts_are_known_to_cost() -> None:
    assert room(spent=0.96).grant(1.0, "assumed", 0.08) is None
    assert room(spent=0.96).grant(1.0, "assumed", 0.01) == pytest.approx(0.04)
    assert room(usd=0.01).grant(1.0, "assumed", 0.5) == 0.01  # where the limit is below every price, one starts


def test_what_stays_reserved_of_an_unknown_cost() -> None:
    assert budget.unknown_reservation(0.0, 3.0, Budget()) == 3.0
    assert budget.unknown_reservation(0.0, 0.0, Budget(unknown_cost_usd=0.7)) == 0.7
    assert budget.unknown_reservation(1.0, 3.0, Budget()) == 2.0
    assert budget.unknown_reservation(5.0, 3.0, Budget()) == 0.0


@pytest.mark.parametrize(
    ("reported", "metered", "usd", "disputed"),
    [
        (0.0, 28.5, 28.5, True),
        (900.0, 28.5, 900.0, True),
        (0.61, 0.6, 0.61, UNSET),
        (0.5, 0.62, 0.62, UNSET),  # within a fifth
        (0.001, 0.009, 0.009, UNSET),  # within a cent
        (None, 0.5, 0.5, UNSET),
        (0.5, None, 0.5, UNSET),
    ],
)
def test_the_larger_of_two_words_counts(
    reported: float | None, metered: float | None, usd: float, disputed: bool | UnsetType
) -> None:
    found = budget.settled_cost(Cost(reported, "reported"), Cost(metered, "metered"))
    assert (found.usd, found.disputed) == (usd, disputed)


@given(st.floats(0.0, 100.0), st.floats(0.0, 100.0), st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(0.01, 50.0))
def test_what_is_offered_is_enough(limit: float, spent: float, reserved: float, wanted: float, needs: float) -> None:
    refusal = Refusal(Limit(window="run", usd=limit), spent, reserved, wanted)
    more = budget.shortfall(refusal, needs)
    asked = budget.budget_question(WHO, "r-1", refusal, more, 100.0)
    raised = budget.amount(asked.choices[0], 0.0)  # as it is typed: whole cents
    assert raised is not None
    assert limit + raised >= spent + reserved + needs - 1e-6


def test_a_person_is_told_the_numbers() -> None:
    refusal = Refusal(Limit(window="day", usd=10, agent="claude"), 9.5, 0.25, 1.0)
    words = budget.words(refusal)
    for part in ("the budget of the day of claude is $10", "$9.50 is spent", "$0.25 is reserved for others", "$1.00"):
        assert part in words
    asked = budget.budget_question(WHO, "r-1", refusal, 2.0, 100.0)
    assert (asked.default, asked.about, asked.choices[-1]) == ("stop", "budget", "stop")
    assert budget.amount(asked.choices[0], 9.0) == budget.amount("raise", budget.offered_usd(asked)) == 2.0
    assert asked.deadline > 100.0
    ceiling = budget.budget_question(WHO, "r-1", Refusal(Limit(window="ceiling", usd=1), 1, 0, 1), 2.0, 100.0)
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
