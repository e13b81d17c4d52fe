"""The ledger: many processes, one limit, random deaths; what is held is never more than may be spent, nothing leaks."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from corral.flow import Flow
from corral.model import Attempt, AttemptRecord, Cost, RunPlan, RunRecord, Tokens
from corral.money import Bound, Limit, Line
from corral.world import custody
from corral.world.store.ledger import Ledger
from corral.world.store.sqlite import Store
from tests.rig.tries import tries

DAY = Bound(limit=Limit(window="day", usd=10.0), run="r")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def line(name: str, usd: float, *, run: str = "r", owner: str = "me", at: float = 100.0, agent: str = "claude") -> Line:
    return Line(attempt=name, run=run, node="main", agent=agent, repo="/r", owner=owner, reserved=usd, at=at)


def ended(name: str, usd: float | None) -> Attempt:
    return Attempt(id=name, agent="claude", status="done", cost=Cost(usd, "reported"), tokens=Tokens(1, 2))


def ledger(store: Store, dead: tuple[str, ...] = ()) -> Ledger:
    return Ledger(store, lambda owner: owner not in dead)


def test_what_is_held_counts_until_it_is_settled(store: Store) -> None:
    kept = ledger(store)
    assert kept.reserve(line("a", 6.0), [DAY]) is None
    refusal = kept.reserve(line("b", 5.0), [DAY])
    assert refusal is not None
    assert (refusal.spent, refusal.reserved, refusal.wanted, refusal.left) == (0.0, 6.0, 5.0, 4.0)
    kept.settle(ended("a", 1.5), 1.5, 101.0)
    assert kept.reserve(line("b", 5.0), [DAY]) is None
    assert kept.held(DAY) == (1.5, 5.0)


def test_a_dead_process_gives_back_what_it_held_but_not_what_it_spent(store: Store) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 4.0, owner="gone"), [DAY])
    kept.spend("a", 1.0, "reported")
    kept.reserve(line("u", 2.0, owner="gone"), [DAY])  # nobody knows what it spent: that stays reserved
    after = ledger(store, dead=("gone",))
    assert after.reserve(line("b", 7.0), [DAY]) is None
    assert after.held(DAY) == (1.0, 9.0)


def test_an_attempt_that_is_taken_up_again_is_held_once(store: Store) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 6.0, owner="gone"), [DAY])
    assert kept.reserve(line("a", 6.0, owner="me"), [DAY]) is None
    assert kept.held(DAY) == (0.0, 6.0)


def test_more_is_held_only_where_there_is_room(store: Store) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 2.0), [DAY])
    kept.reserve(line("b", 5.0), [DAY])
    assert kept.hold_more("a", 5.0, [DAY], 101.0) is None
    assert kept.hold_more("a", 5.5, [DAY], 101.0) is not None
    assert kept.held(DAY) == (0.0, 10.0)


@pytest.mark.parametrize("window", ["run", "node"])
def test_of_attempts_whose_price_is_a_guess_one_is_at_work(store: Store, window: str) -> None:
    kept = ledger(store)
    bound = Bound(limit=Limit(window=window, usd=10.0), run="r", node="main")  # type: ignore[arg-type]
    first, second = (structs.replace(line(name, 0.1), guessed=True) for name in "ab")
    assert kept.reserve(first, [bound], "assumed") is None
    refusal = kept.reserve(second, [bound], "assumed")
    assert refusal is not None
    assert (refusal.waits, refusal.guessed) == (True, True)
    assert kept.reserve(line("known", 0.1), [bound], "usual") is None
    kept.settle(ended("known", 0.1), 0.1, 101.0)
    kept.settle(ended("a", 3.0), 3.0, 101.0)
    assert kept.reserve(second, [bound], "assumed") is None


def test_the_limit_of_a_parent_makes_no_child_wait(store: Store) -> None:
    """Its parent may wait for it: two such families would wait for each other."""
    kept = ledger(store)
    kept.adopt("child", "r")
    bound = Bound(limit=Limit(window="run", usd=10.0), run="r", node="main")
    assert kept.reserve(line("other", 0.1), [bound], "usual") is None
    child = structs.replace(line("c", 0.1, run="child"), guessed=True)
    assert kept.reserve(child, [bound, structs.replace(bound, run="child")], "assumed") is None


def test_costs_of_nothing_and_disputed_ones_are_no_prices(store: Store) -> None:
    kept = ledger(store)
    plan = RunPlan(flow=Flow(name="f", strategy="flow", nodes=()), repo="/r", git_dir="/r", base=None, into=None)
    store.add_run(RunRecord(id="r", status="running", reason=None, plan=plan, created=1.0))
    costs = [Cost(0.0, "reported"), Cost(0.5, "reported"), Cost(9.0, "metered", disputed=True)]
    for number, cost in enumerate(costs, 1):
        name = f"r-{number}"
        attempt = structs.replace(ended(name, 0.0), cost=cost)
        kept.reserve(line(name, 0.1), [])
        kept.settle(attempt, cost.usd or 0.0, 101.0)
        store.save_attempt(AttemptRecord(attempt=attempt, run="r", node="main"))
    assert kept.paid_before("claude", None, None) == [0.5]


def test_a_child_counts_for_all_above_it_and_gives_back(store: Store) -> None:
    kept = ledger(store)
    kept.adopt("child", "root")
    kept.adopt("grandchild", "child")
    assert {*kept.ancestors("grandchild")} == {"child", "root"}
    root = Bound(limit=Limit(window="run", usd=3.0), run="root")
    assert kept.reserve(line("g", 2.5, run="grandchild"), [root]) is None
    assert kept.reserve(line("x", 1.0, run="root"), [root]) is not None
    kept.settle(ended("g", 0.5), 0.5, 101.0)
    assert kept.reserve(line("x", 1.0, run="root"), [root]) is None


def test_an_allowance_lifts_a_limit_but_no_ceiling(store: Store) -> None:
    kept = ledger(store)
    ceiling = Bound(limit=Limit(window="ceiling", usd=12.0), run="r")
    kept.allow("r", "day", 5.0, "anna", 1.0)
    kept.allow("r", "ceiling", 5.0, "anna", 1.0)
    assert kept.reserve(line("a", 11.0), [ceiling, DAY]) is None
    refusal = kept.reserve(line("b", 2.0), [ceiling, DAY])
    assert refusal is not None
    assert refusal.limit.window == "ceiling"


def test_a_clock_that_jumps_never_makes_room(store: Store) -> None:
    kept = ledger(store)
    today = Bound(limit=Limit(window="day", usd=10.0), run="r", since=1000.0)
    kept.reserve(line("future", 8.0, at=99_999.0), [today])  # the clock was ahead, and was put right
    assert kept.reserve(line("now", 3.0, at=1001.0), [today]) is not None
    yesterday = Bound(limit=Limit(window="day", usd=10.0), run="r", since=0.0)
    assert kept.reserve(line("then", 3.0, at=10.0), [yesterday]) is not None


def test_limits_are_set_narrowed_and_dropped(store: Store) -> None:
    kept = ledger(store)
    kept.set_limit(Limit(window="day", usd=10.0), "anna", 1.0)
    kept.set_limit(Limit(window="day", usd=5.0), "berta", 2.0)
    kept.set_limit(Limit(window="day", usd=1.0, agent="codex"), "berta", 2.0)
    assert [(limit.agent, limit.usd, limit.where) for limit in kept.limits()] == [
        ("", 5.0, "set by berta"),
        ("codex", 1.0, "set by berta"),
    ]
    assert kept.drop_limits("day") == 1
    assert [limit.agent for limit in kept.limits()] == ["codex"]
    assert kept.drop_limits(every=True) == 1


steps = st.lists(
    st.tuples(st.sampled_from(["reserve", "more", "settle", "die"]), st.integers(0, 5), st.floats(0.01, 6.0)),
    max_size=60,
)


@given(steps)
@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_limit_holds(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, int, float]]
) -> None:
    store = Store(tmp_path_factory.mktemp("ledger"))
    kept, held = ledger(store), dict[str, float]()
    for number, (what, who, usd) in enumerate(told):
        name = f"a{who}"
        if what == "reserve" and name not in held:
            if kept.reserve(line(f"{name}-{number}", usd, owner=f"o{who}"), [DAY]) is None:
                held[name] = usd
                held[f"{name} line"] = number
        elif name in held:
            attempt = f"{name}-{held[f'{name} line']:.0f}"
            if what == "more":
                kept.hold_more(attempt, held[name] + usd, [DAY], 100.0)
            elif what == "settle":
                kept.settle(ended(attempt, min(usd, held[name])), min(usd, held[name]), 100.0)
                del held[name]
            elif what == "die":
                ledger(store, dead=(f"o{who}",)).release_dead(100.0)
                del held[name]
        spent, reserved = kept.held(DAY)
        assert spent + reserved <= 10.0 + 1e-6
    ledger(store, dead=tuple(f"o{n}" for n in range(6))).release_dead(100.0)
    assert all(each.settled is not None for each in kept.history())
    assert kept.held(DAY)[1] == pytest.approx(
        sum(each.reserved - each.spent for each in kept.history() if each.source == "unknown")
    )
    store.close()


SPENDER = """
import os, random, signal, sys
from pathlib import Path
from corral.model import Attempt, Cost
from corral.money import Bound, Limit, Line
from corral.world import custody
from corral.world.store.ledger import Ledger
from corral.world.store.sqlite import Store
folder, number, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
dice, store = random.Random(seed), Store(folder)
kept, day = Ledger(store, custody.alive), Bound(limit=Limit(window="day", usd=20.0), run="r")
dies_at = dice.randrange(10, 60) if dice.random() < 0.6 else None
for turn in range(60):
    name, usd = f"{number}-{turn}", dice.uniform(0.05, 2.0)
    if kept.reserve(Line(attempt=name, run="r", node="main", agent="a", repo="/r", owner=custody.me(), reserved=usd, at=1.0), [day]):
        continue
    if turn == dies_at or (dies_at is not None and turn > dies_at):
        os.kill(os.getpid(), signal.SIGKILL)
    spent = usd * dice.uniform(0.0, 0.2)
    kept.spend(name, spent / 2, "reported")
    kept.settle(Attempt(id=name, agent="a", status="done", cost=Cost(spent, "reported")), spent, 2.0)
"""


@pytest.mark.slow
def test_eight_processes_race_and_die_at_random(tmp_path: Path) -> None:
    store = Store(tmp_path)
    day = Bound(limit=Limit(window="day", usd=20.0), run="r")
    seeds = random.Random(7)
    racing = [
        subprocess.Popen([sys.executable, "-c", SPENDER, str(tmp_path), str(n), str(seeds.randrange(10**6))])
        for n in range(8)
    ]
    kept = Ledger(store, custody.alive)
    most = 0.0
    while any(process.poll() is None for process in racing):
        most = max(most, sum(kept.held(day)))
    codes = [process.wait() for process in racing]
    assert {*codes} <= {0, -signal.SIGKILL}, codes
    assert -signal.SIGKILL in codes
    assert 0 < most <= 20.0 + 1e-6
    kept.release_dead(3.0)
    spent, reserved = kept.held(day)
    lines = kept.history()
    lost = [each for each in lines if each.status == "lost" and each.source == "unknown"]
    assert reserved == pytest.approx(sum(each.reserved for each in lost))  # of those nobody knows what they spent
    assert 0 < spent + reserved <= 20.0 + 1e-6
    assert all(each.settled is not None for each in lines)
    assert spent == pytest.approx(sum(each.spent for each in lines))
    assert len({each.attempt for each in lines}) == len(lines)
