"""Which of several attempts wins: total, the same in any order, and never what is not proven."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from corral.model import (
    Attempt,
    AttemptRecord,
    CheckResult,
    Cost,
    Failure,
    SandboxReport,
    Sighting,
    Status,
    Tally,
    Violation,
)
from corral.rules.race import early_stop, select
from corral.rules.race.early_stop import Race
from corral.rules.race.select import BY, How

checks = st.builds(
    CheckResult,
    command=st.sampled_from(["a", "b"]),
    exit_code=st.sampled_from([0, 0, 1]),
    seconds=st.just(0.1),
    note=st.sampled_from(["", "", "passes only with changed tests"]),
    new_failures=st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
    old_failures=st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
    flaky=st.booleans(),
    tests=st.none() | st.builds(Tally, st.just("pytest"), st.integers(0, 5), st.integers(0, 2)),
    before=st.none() | st.builds(Sighting, exit_code=st.just(0), tests=st.just(Tally("pytest", 4))),
)
statuses: st.SearchStrategy[Status] = st.sampled_from(["done", "done", "failed", "timed_out", "stopped"])
attempts = st.builds(
    Attempt,
    id=st.integers(1, 40).map(lambda number: f"run-{number}"),
    agent=st.sampled_from(["claude", "codex"]),
    status=statuses,
    error=st.none() | st.just(Failure("crash", "it broke")),
    cost=st.builds(Cost, st.sampled_from([None, 0.0, 0.5, float("inf"), float("nan")])),
    seconds=st.sampled_from([0.0, 1.0, 2.0, float("nan")]),
    files_changed=st.sampled_from([(), ("a",)]),
    insertions=st.integers(0, 3),
    checks=st.lists(checks, max_size=2).map(tuple),
    sandbox=st.builds(
        SandboxReport,
        violations=st.lists(st.builds(Violation, st.sampled_from(["net", "write"]), st.just("x")), max_size=2).map(
            tuple
        ),
    ),
    scores=st.dictionaries(st.sampled_from("pq"), st.floats(), max_size=2),
    votes=st.none() | st.floats(0, 4),
    output=st.none() | st.text(max_size=3),
)
hows: st.SearchStrategy[How] = st.sampled_from(sorted(BY))
groups = st.lists(attempts, max_size=6, unique_by=lambda each: each.id)


@given(groups, hows, st.randoms(use_true_random=False))
def test_the_order_is_total_and_does_not_depend_on_the_order_given(
    group: list[Attempt], how: How, chance: random.Random
) -> None:
    ranking = select.rank(group, how)
    shuffled = list(group)
    chance.shuffle(shuffled)
    assert select.rank(shuffled, how) == ranking
    assert sorted(ranking.order) == sorted(each.id for each in group)
    assert set(ranking.reasons) == set(ranking.order)
    assert all(ranking.reasons.values())


@given(groups, hows)
def test_only_what_is_proven_wins_and_something_does_if_there_is_any(group: list[Attempt], how: How) -> None:
    ranking = select.rank(group, how)
    good = {each.id for each in group if select.is_proven(each)}
    assert (ranking.winner in good) if good else ranking.winner is None
    places = [name in good for name in ranking.order]
    assert places == sorted(places, reverse=True)


@given(groups, hows)
def test_taking_one_away_leaves_the_order_of_the_others(group: list[Attempt], how: How) -> None:
    whole = select.rank(group, how).order
    for left_out in group:
        rest = select.rank([each for each in group if each.id != left_out.id], how).order
        assert rest == tuple(name for name in whole if name != left_out.id)


@given(groups, attempts, hows)
def test_who_is_stopped_could_not_have_won(group: list[Attempt], other: Attempt, how: How) -> None:
    over = [each for each in group if each.id != other.id]
    scored = any(each.scores or each.votes for each in [*over, other])
    at_work = AttemptRecord(attempt=other, run="run", node="n")
    race = Race(over=over, at_work=[at_work], how=how, scored=scored)
    if early_stop.to_stop(race) and how != "first":
        arrived = structs.replace(other, checks=(), status="done")
        assert select.rank([*over, arrived], how).winner != other.id


def test_no_fact_is_made_up_of_an_attempt_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a further criterion, of which nobody knows yet what an attempt at work will reach, it is not beaten."""
    most_files = select.Criterion("files", lambda each: -len(each.files_changed), "most files", lambda *_: "fewer")
    monkeypatch.setattr(select, "BY", {**select.BY, "evidence": (select.PROVEN, most_files)})
    race = Race(over=[attempt(1, files_changed=("a", "b"))], at_work=[record(2)], now=5.0)
    assert early_stop.to_stop(race) == {}


def attempt(number: int, **more: object) -> Attempt:
    base = Attempt(id=f"r-{number}", agent=f"agent{number}", status="done", files_changed=("a",), insertions=5)
    return structs.replace(base, **{"checks": (passed(),), **more})


def passed(**more: object) -> CheckResult:
    return structs.replace(CheckResult(command="pytest", exit_code=0, seconds=1.0), **more)


CASES = [
    ({"cost": Cost(0.1, "reported")}, {"cost": Cost(0.2, "reported")}, "lowest cost", "cost $0.20, against $0.10"),
    ({}, {"insertions": 9}, "smallest change", "larger change: 9 lines against 5"),
    ({"scores": {"x": 2.0}}, {"scores": {"x": 1.0}, "insertions": 1}, "highest score", "score 1, against 2"),
    ({"votes": 2.0}, {"votes": 1.0, "insertions": 1}, "preferred by the judge", "the judge gave it 1, against 2"),
    (
        {},
        {"checks": (passed(flaky=True),), "insertions": 1},
        "its checks leave no doubt",
        "1 doubt about its checks (flaky, or tests that do not run any more)",
    ),
    ({"seconds": 1.0}, {"seconds": 2.0}, "quickest", "slower: 2.0 s against 1.0 s"),
    ({}, {}, "the first of equals", "equal to r-1, and came later"),
    (
        {"insertions": 50},
        {"status": "failed", "error": Failure("check_failed", "`pytest` ended with 1"), "insertions": 1},
        "the only one that is done",
        "check_failed: `pytest` ended with 1",
    ),
]


@pytest.mark.parametrize(("first", "second", "best", "behind"), CASES)
def test_reasons_are_told(first: dict[str, object], second: dict[str, object], best: str, behind: str) -> None:
    ranking = select.rank([attempt(2, **second), attempt(1, **first)])
    assert ranking.winner == "r-1"
    assert ranking.why == f"its check passes; {best}"
    assert ranking.reasons["r-2"] == behind


def test_none_is_good_enough() -> None:
    bad = Failure("check_failed", "`pytest` ended with 1")
    ranking = select.rank([attempt(1, status="failed", error=bad), attempt(2, status="timed_out")])
    assert ranking.winner is None
    assert ranking.why == "none is good enough: agent1: check_failed: `pytest` ended with 1; agent2: timed out"


def test_tests_that_were_added_do_not_help() -> None:
    many = passed(tests=Tally("pytest", 900), before=Sighting(exit_code=0, tests=Tally("pytest", 4)))
    few = passed(tests=Tally("pytest", 5), before=Sighting(exit_code=0, tests=Tally("pytest", 4)))
    ranking = select.rank([attempt(1, checks=(many,), insertions=900), attempt(2, checks=(few,))])
    assert ranking.winner == "r-2"


def test_the_cheapest_is_the_originals_rule() -> None:
    group = [
        attempt(1, cost=Cost(0.5), insertions=1),
        attempt(2, cost=Cost(0.2), insertions=90),
        attempt(3, status="failed", cost=Cost(0.0), output="a very long output"),
        attempt(4, status="failed", cost=Cost(0.0), output="short"),
    ]
    assert select.rank(group, "cheapest").order == ("r-2", "r-1", "r-3", "r-4")
    failed = select.rank(group[2:], "cheapest")
    assert (failed.order, failed.winner) == (("r-3", "r-4"), None)


def record(number: int, **more: object) -> AttemptRecord:
    return AttemptRecord(attempt=attempt(number, status="running", **more), run="r", node="n", started=0.0)


def test_the_first_that_is_proven_ends_the_race_if_that_was_asked_for() -> None:
    race = Race(over=[attempt(1)], at_work=[record(2), record(3)], how="first", now=5.0)
    assert sorted(early_stop.to_stop(race)) == ["r-2", "r-3"]
    assert early_stop.to_stop(structs.replace(race, over=[attempt(1, status="failed")])) == {}


def test_by_evidence_others_go_on_while_they_might_be_better() -> None:
    assert early_stop.to_stop(Race(over=[attempt(1)], at_work=[record(2)], now=5.0)) == {}


def test_who_wrote_outside_its_scope_cannot_win_any_more() -> None:
    strayed = record(2, sandbox=SandboxReport(violations=(Violation("write", "x"),)))
    assert sorted(early_stop.to_stop(Race(over=[attempt(1)], at_work=[strayed, record(3)]))) == ["r-2"]


def test_who_has_cost_more_cannot_be_the_cheapest() -> None:
    race = Race(over=[attempt(1, cost=Cost(0.2))], at_work=[record(2, cost=Cost(0.3)), record(3)], how="cheapest")
    assert sorted(early_stop.to_stop(race)) == ["r-2"]


def test_a_budget_that_nears_its_end_ends_the_race_once_something_is_proven() -> None:
    race = Race(over=[attempt(1)], at_work=[record(2)], budget_usd=1.0, spent_usd=0.79)
    assert early_stop.to_stop(race) == {}
    near = structs.replace(race, spent_usd=0.8)
    assert sorted(early_stop.to_stop(near)) == ["r-2"]
    assert early_stop.to_stop(structs.replace(near, over=[])) == {}
