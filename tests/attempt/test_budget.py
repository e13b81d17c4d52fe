"""The money of one attempt: what it cost in the end, also where its process is gone or its agent says less."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral.attempt.budget import AttemptBudget, Terms
from corral.model import Attempt, AttemptRecord, Cost, Tokens
from corral.model.flow import Task
from corral.model.money import Budget, Limit
from corral.store.parts.ledger import Ledger
from corral.store.sqlite.store import Store
from corral.world import process_identity

UNKNOWN = Terms(budget=Budget(unknown_cost_usd=1.0), names_cost=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def purse(store: Store, number: int = 1, task: Task | None = None, **facts: Any) -> tuple[AttemptBudget, AttemptRecord]:
    record = AttemptRecord(attempt=Attempt(id=f"r-{number}", agent="pay", cost=Cost()), run="r", node="main", **facts)
    return AttemptBudget(record, store, task or Task(prompt="x"), lambda _: None), record


def reserved(store: Store, terms: Terms, **facts: Any) -> AttemptBudget:
    """Reserve money for an attempt and let its agent begin; who forgets its purse has killed its process."""
    found = purse(store, **facts)[0]
    assert asyncio.run(found.open(terms, "/r")) is None
    found.begin_spending()
    return found


def end(found: AttemptBudget, record: AttemptRecord) -> Cost:
    record.attempt.cost = found.cost()
    found.settle()
    return record.attempt.cost


def test_an_unknown_cost_stays_reserved_after_a_kill(store: Store) -> None:
    reserved(store, UNKNOWN)
    after, record = purse(store)
    after.asked_nobody = lambda: True  # as a new host has it
    assert end(after, record) == Cost(None, "unknown", 1.0)
    line = Ledger(store, process_identity.is_alive).line("r-1")
    assert line is not None
    assert (line.spent, line.reserved) == (0.0, 1.0)


def test_what_was_not_reported_before_a_kill_stays_reserved(store: Store) -> None:
    reserved(store, UNKNOWN).count_reported(0.3, Tokens())
    after, record = purse(store)
    assert after.lost_cost() == Cost(0.3, "reported", 0.7)
    record.attempt.cost = Cost(0.4, "reported")  # in its log, but not in the ledger
    assert after.lost_cost() == Cost(0.4, "reported", 0.6)


def test_a_kill_before_the_agent_starts_gives_everything_back(store: Store) -> None:
    asyncio.run(purse(store)[0].open(UNKNOWN, "/r"))
    assert purse(store)[0].lost_cost() == Cost(0.0, "metered")


def test_a_kill_leaves_reserved_what_open_requests_of_a_metered_agent_may_cost(store: Store) -> None:
    limits = (Limit(window="day", usd=9.0),)
    found = reserved(store, Terms(budget=Budget(limits=limits, unknown_cost_usd=2.0), metered=True))
    after, _ = purse(store)
    assert after.lost_cost() == Cost(0.0, "metered")  # it has asked nobody yet
    first = asyncio.run(found.count.enter())
    assert after.lost_cost() == Cost(None, "unknown", 2.0)  # nobody knows what its first answer costs
    found.meter("claude-sonnet-4-5", Tokens(100_000, 10_000), first)
    found.count.leave(first, charged=True, known=True)
    assert after.lost_cost() == Cost(0.45, "metered")
    asyncio.run(found.count.enter())
    assert after.lost_cost() == Cost(0.45, "metered", 0.45)  # as much as the dearest answer so far


def test_an_agent_that_is_cut_short_may_have_spent_more_than_it_said(store: Store) -> None:
    found, record = purse(store)
    asyncio.run(found.open(UNKNOWN, "/r"))
    found.count_reported(0.3, Tokens())
    record.attempt.cost, found.reported_whole = Cost(0.3, "reported"), False
    assert end(found, record) == Cost(0.3, "reported", 0.7)


def test_a_fixed_price_is_charged_after_a_kill(store: Store) -> None:
    reserved(store, Terms(budget=Budget(), fixed_usd=0.5))
    assert end(*purse(store, cost_usd=0.5)) == Cost(0.5, "fixed")


def test_what_was_reported_before_a_kill_counts(store: Store) -> None:
    reserved(store, UNKNOWN)
    after, record = purse(store)
    record.attempt.cost = Cost(0.3, "reported")
    assert end(after, record) == Cost(0.3, "reported")


@pytest.mark.parametrize("said", [0.0, 0.2])
def test_its_word_does_not_hide_requests_without_a_price(store: Store, said: float) -> None:
    found, record = purse(store)
    asyncio.run(found.open(UNKNOWN, "/r"))
    found.meter("no-such-model", Tokens(100_000, 10_000), 1)
    found.count.unpriced = found.count.passed = 1
    record.attempt.cost = Cost(said, "reported")
    assert end(found, record) == Cost(said, "reported", 1.0 - said)


def test_requests_to_a_model_that_runs_here_need_no_price(store: Store) -> None:
    found, record = purse(store)
    asyncio.run(found.open(Terms(budget=Budget(), local=True), "/r"))
    found.count.unpriced = found.count.passed = 1
    record.attempt.cost = Cost(0.0, "reported")
    assert end(found, record) == Cost(0.0, "reported")


def test_a_ledger_that_lags_behind_disputes_nothing(store: Store) -> None:
    found, record = purse(store)
    asyncio.run(found.open(UNKNOWN, "/r"))
    Ledger(store, process_identity.is_alive).spend("r-1", 0.1, "metered")
    record.attempt.cost = Cost(0.5, "reported")
    assert end(found, record) == Cost(0.5, "reported")


def test_yes_lifts_days_and_months_only(store: Store) -> None:
    limits = tuple(Limit(window=window, usd=0.5) for window in ("run", "day", "month", "ceiling"))
    found, _ = purse(store)
    asyncio.run(found.open(Terms(budget=Budget(limits=limits), go_on=True), "/r"))
    assert [bound.limit.window for bound in found._bounds] == ["ceiling", "run"]


@pytest.mark.parametrize(
    ("limits", "number", "most"),
    [
        ((), None, None),
        ((), 7, 7),
        ((Limit(window="day", usd=9.0),), None, 50),
        ((Limit(window="day", usd=9.0, agent="another"),), None, 50),
        ((Limit(window="month", usd=9.0, repo="/another"),), None, 50),
    ],
)
def test_unpriced_requests_are_bounded_where_any_limit_is_set(
    store: Store, limits: tuple[Limit, ...], number: int | None, most: int | None
) -> None:
    """Also where it binds another agent or repository, and where --yes lets a run past days and months."""
    found, _ = purse(store)
    settings = Budget(limits=limits, max_unpriced_requests=number)
    asyncio.run(found.open(Terms(budget=settings, go_on=True, metered=True), "/r"))
    assert found.count.most == most
