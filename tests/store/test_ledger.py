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

from corral.model import Attempt, AttemptRecord, Cost, RunPlan, RunRecord, Tokens
from corral.model.flow import Flow
from corral.model.money import Bound, LedgerLine, Limit
from corral.store.parts.families import Lineage
from corral.store.parts.ledger import Ledger
from corral.store.parts.runs import Runs
from corral.store.records import Child
from corral.world import process_identity
from tests.rig.stores import emptied, opened
from tests.rig.tries import tries

DAY = Bound(limit=Limit(window="day", usd=10.0), run="r")


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    return opened(tmp_path)


def line(
    name: str, usd: float, *, run: str = "r", owner: str = "me", at: float = 100.0, agent: str = "claude"
) -> LedgerLine:
    return LedgerLine(attempt=name, run=run, node="main", agent=agent, repo="/r", owner=owner, reserved=usd, at=at)


def ended(name: str, usd: float | None) -> Attempt:
    return Attempt(id=name, agent="claude", status="done", cost=Cost(usd, "reported"), tokens=Tokens(1, 2))


def spawned(store: Runs, run: str, *, parent: str, attempt: str) -> None:
    """Open a run below another."""
    plan = RunPlan(flow=Flow(name="f", strategy="flow", nodes=()), repo="/r", git_dir="/r", base=None, into=None)
    store.add_run(RunRecord(id=run, status="running", reason=None, plan=plan, created=1.0))
    ledger(store).adopt(run, parent)
    with store.transaction():
        Lineage(store).add(
            Child(run=run, root=parent, parent=parent, node="main", attempt=attempt, depth=1, budget_usd=None, at=1.0)
        )


def ledger(store: Runs, dead: tuple[str, ...] = ()) -> Ledger:
    return Ledger(store, lambda owner: owner not in dead)


def test_what_is_held_counts_until_it_is_settled(store: Runs) -> None:
    kept = ledger(store)
    assert kept.reserve(line("a", 6.0), [DAY]) is None
    refusal = kept.reserve(line("b", 5.0), [DAY])
    assert refusal is not None
    assert (refusal.spent, refusal.reserved, refusal.wanted, refusal.remaining_usd) == (0.0, 6.0, 5.0, 4.0)
    kept.settle(ended("a", 1.5), 1.5, 101.0)
    assert kept.reserve(line("b", 5.0), [DAY]) is None
    assert kept.spent_and_reserved(DAY) == (1.5, 5.0)


def test_a_dead_process_gives_back_what_it_cannot_have_spent(store: Runs) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 4.0, owner="gone"), [DAY])  # counted answer by answer: one of at most $0.50 is open
    kept.risk("a", 0.5)
    kept.spend("a", 1.0, "metered")
    kept.reserve(line("u", 2.0, owner="gone"), [DAY])  # nobody knows what it spent besides: that stays reserved
    kept.risk("u", None)
    kept.spend("u", 0.5, "reported")
    kept.reserve(line("n", 3.0, owner="gone"), [DAY])  # its agent was not started
    after = ledger(store, dead=("gone",))
    assert after.reserve(line("b", 6.6), [DAY]) is not None
    assert after.reserve(line("b", 6.5), [DAY]) is None
    assert after.spent_and_reserved(DAY) == (1.5, 8.5)


def test_an_attempt_that_is_taken_up_again_is_held_once(store: Runs) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 6.0, owner="gone"), [DAY])
    assert kept.reserve(line("a", 6.0, owner="me"), [DAY]) is None
    assert kept.spent_and_reserved(DAY) == (0.0, 6.0)


def test_more_is_held_only_where_there_is_room(store: Runs) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 2.0), [DAY])
    kept.reserve(line("b", 5.0), [DAY])
    assert kept.hold_more("a", 5.0, [DAY], 101.0) is None
    assert kept.hold_more("a", 5.5, [DAY], 101.0) is not None
    assert kept.spent_and_reserved(DAY) == (0.0, 10.0)


@pytest.mark.parametrize("window", ["run", "node"])
def test_of_attempts_whose_price_is_a_guess_one_is_at_work(store: Runs, window: str) -> None:
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


def test_the_limit_of_a_parent_makes_no_child_wait(store: Runs) -> None:
    """Its parent may wait for it: two such families would wait for each other."""
    kept = ledger(store)
    kept.adopt("child", "r")
    bound = Bound(limit=Limit(window="run", usd=10.0), run="r", node="main")
    assert kept.reserve(line("other", 0.1), [bound], "usual") is None
    child = structs.replace(line("c", 0.1, run="child"), guessed=True)
    assert kept.reserve(child, [bound, structs.replace(bound, run="child")], "assumed") is None


def guess(name: str, usd: float = 0.1, *, run: str = "r", owner: str = "me", agent: str = "claude") -> LedgerLine:
    return structs.replace(line(name, usd, run=run, owner=owner, agent=agent), guessed=True)


@pytest.mark.parametrize("window", ["day", "month", "ceiling"])
def test_under_a_shared_limit_attempts_of_an_assumed_price_work_one_after_another(store: Runs, window: str) -> None:
    """Whatever their runs: until the price is known, one of them is at work."""
    kept = ledger(store)
    bound = Bound(limit=Limit(window=window, usd=1.0), run="x")  # type: ignore[arg-type]
    assert kept.reserve(guess("a", run="one"), [bound], "assumed") is None
    refusal = kept.reserve(guess("b", run="two"), [bound], "assumed")
    assert refusal is not None
    assert (refusal.waits, refusal.guessed, refusal.behind) == (True, True, ("a",))
    assert kept.reserve(line("known", 0.1, run="three"), [bound], "usual") is None  # and it holds nobody up
    silent = structs.replace(guess("silent", run="four"), reports=False)
    assert kept.reserve(silent, [bound], "assumed") is None  # nothing would be learned from waiting
    kept.settle(ended("a", 0.5), 0.5, 101.0)
    assert kept.reserve(guess("b", run="two"), [bound], "assumed") is None


def test_an_attempt_of_an_assumed_price_keeps_waiting_while_others_hold_more(store: Runs) -> None:
    kept = ledger(store)
    assert kept.reserve(guess("a", run="one"), [DAY], "assumed") is None
    kept.spend("a", 5.0, "reported")
    assert kept.hold_more("a", 10.0, [DAY], 101.0) is None
    refusal = kept.reserve(guess("b", 5.0, run="two"), [DAY], "assumed")
    assert refusal is not None
    assert not refusal.waits  # one that begins to wait now might wait for hours
    patient = structs.replace(guess("b", 5.0, run="two"), patient=True)
    refusal = kept.reserve(patient, [DAY], "assumed")
    assert refusal is not None
    assert (refusal.waits, refusal.behind) == (True, ("a",))
    never = kept.reserve(structs.replace(patient, reserved=5.1), [DAY], "assumed")
    assert never is not None
    assert not never.waits  # what is spent does not come back


def test_an_attempt_of_an_assumed_price_waits_for_no_dead_process(store: Runs) -> None:
    kept, dead = ledger(store), ledger(store, dead=("gone",))
    assert kept.reserve(guess("a", owner="gone"), [DAY], "assumed") is None
    assert kept.reserve(guess("b", run="two"), [DAY], "assumed") is not None
    dead.release_dead(102.0)
    assert kept.reserve(guess("b", run="two"), [DAY], "assumed") is None


def test_attempts_of_an_assumed_price_work_at_once_where_the_dearest_ones_would_fit(store: Runs) -> None:
    kept = ledger(store)
    for number, usd in enumerate((0.5, 1.0, 0.2)):
        kept.reserve(line(f"known-{number}", usd), [])
        kept.settle(ended(f"known-{number}", usd), usd, 101.0)
    # $8.30 are left: each may cost twice the dearest one, so that four fit.
    found = [kept.reserve(guess(f"a{number}", run=f"r{number}"), [DAY], "assumed") for number in range(6)]
    assert [each is None for each in found] == [True] * 4 + [False] * 2
    other = kept.reserve(guess("b", run="b", agent="codex"), [DAY], "assumed")
    assert other is not None  # nobody knows what it may cost
    assert other.waits


def test_attempts_that_wait_for_runs_they_started_hold_no_such_run_up(store: Runs) -> None:
    """Two families of an agent each, under limits of both agents: neither waits for the other for ever."""
    kept = ledger(store)
    limits = [Bound(limit=Limit(window="day", usd=9.0, agent=agent)) for agent in ("codex", "claude")]
    for root, agent, mine in (("r1", "claude", limits[1:]), ("r2", "codex", limits[:1])):
        assert kept.reserve(guess(f"{root}-1", run=root, agent=agent), mine, "assumed") is None
        spawned(store, f"{root}c", parent=root, attempt=f"{root}-1")
    assert kept.reserve(guess("c1", run="r1c", agent="codex"), limits[:1], "assumed") is None
    assert kept.reserve(guess("c2", run="r2c", agent="claude"), limits[1:], "assumed") is None
    waits = kept.reserve(guess("n", run="new", agent="claude"), limits[1:], "assumed")
    assert waits is not None  # a run that nobody started waits for all of them
    assert waits.behind == ("c2", "r1-1")


def test_costs_of_nothing_and_disputed_ones_are_no_prices(store: Runs) -> None:
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


def test_a_child_counts_for_all_above_it_and_gives_back(store: Runs) -> None:
    kept = ledger(store)
    kept.adopt("child", "root")
    kept.adopt("grandchild", "child")
    assert {*kept.ancestors("grandchild")} == {"child", "root"}
    root = Bound(limit=Limit(window="run", usd=3.0), run="root")
    assert kept.reserve(line("g", 2.5, run="grandchild"), [root]) is None
    assert kept.reserve(line("x", 1.0, run="root"), [root]) is not None
    kept.settle(ended("g", 0.5), 0.5, 101.0)
    assert kept.reserve(line("x", 1.0, run="root"), [root]) is None


def test_runs_below_a_task_share_its_limit(store: Runs) -> None:
    """What waits for them counts with what it spent, and a sibling with what is reserved for it."""
    kept = ledger(store)
    for name in ("c1", "c2"):
        spawned(store, name, parent="root", attempt="p")
    limit = Limit(window="node", usd=3.0)

    def shared(run: str) -> Bound:
        return Bound(limit=limit, run="root", node="main", spender=run, waiting=("p",))

    kept.reserve(line("p", 3.0, run="root"), [Bound(limit=limit, run="root", node="main")])
    kept.spend("p", 0.5, "reported")
    assert kept.spent_and_reserved(shared("c1")) == (0.5, 0.0)
    assert kept.reserve(line("one", 1.5, run="c1"), [shared("c1")], "usual") is None
    refusal = kept.reserve(line("two", 1.5, run="c2"), [shared("c2")], "usual")
    assert refusal is not None
    assert refusal.waits  # its sibling may give back enough
    kept.settle(ended("one", 0.9), 0.9, 101.0)
    assert kept.reserve(line("two", 1.5, run="c2"), [shared("c2")], "usual") is None
    assert kept.hold_more("two", 1.7, [shared("c2")], 102.0) is not None
    kept.allow("c2", "node", 0.5, "ada", 103.0)  # a raise of the run below lifts what it shares, for that run
    assert kept.hold_more("two", 1.7, [shared("c2")], 104.0) is None


def test_an_allowance_lifts_a_limit_but_no_ceiling(store: Runs) -> None:
    kept = ledger(store)
    ceiling = Bound(limit=Limit(window="ceiling", usd=12.0), run="r")
    kept.allow("r", "day", 5.0, "anna", 1.0)
    kept.allow("r", "ceiling", 5.0, "anna", 1.0)
    assert kept.reserve(line("a", 11.0), [ceiling, DAY]) is None
    refusal = kept.reserve(line("b", 2.0), [ceiling, DAY])
    assert refusal is not None
    assert refusal.limit.window == "ceiling"


def test_a_clock_that_jumps_never_makes_room(store: Runs) -> None:
    kept = ledger(store)
    today = Bound(limit=Limit(window="day", usd=10.0), run="r", since=1000.0)
    kept.reserve(line("future", 8.0, at=99_999.0), [today])  # the clock was ahead, and was put right
    assert kept.reserve(line("now", 3.0, at=1001.0), [today]) is not None
    yesterday = Bound(limit=Limit(window="day", usd=10.0), run="r", since=0.0)
    assert kept.reserve(line("then", 3.0, at=10.0), [yesterday]) is not None


def test_limits_are_set_narrowed_and_dropped(store: Runs) -> None:
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
    store = emptied(tmp_path_factory.mktemp("ledger"))
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
        spent, reserved = kept.spent_and_reserved(DAY)
        assert spent + reserved <= 10.0 + 1e-6
    ledger(store, dead=tuple(f"o{n}" for n in range(6))).release_dead(100.0)
    assert all(each.settled is not None for each in kept.history())
    assert kept.spent_and_reserved(DAY)[1] == pytest.approx(
        sum(each.reserved - each.spent for each in kept.history() if each.source == "unknown")
    )
    assert store.check_sums() == "ok"
    store.close()


SPENDER = """
import os, random, signal, sys
from pathlib import Path
from corral.model import Attempt, Cost
from corral.model.money import Bound, LedgerLine, Limit
from corral.world import process_identity
from corral.store.records import Child
from corral.store.parts.families import Lineage
from corral.store.parts.ledger import Ledger
from corral.store.opening import open_store
folder, number, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
dice, store = random.Random(seed), open_store(folder)
kept, day = Ledger(store, process_identity.is_alive), Bound(limit=Limit(window="day", usd=20.0), run="r")
dies_at = dice.randrange(10, 60) if dice.random() < 0.6 else None
for turn in range(60):
    name, usd = f"{number}-{turn}", dice.uniform(0.05, 2.0)
    if kept.reserve(LedgerLine(attempt=name, run="r", node="main", agent="a", repo="/r", owner=process_identity.own_name(), reserved=usd, at=1.0), [day]):
        continue
    if turn == dies_at or (dies_at is not None and turn > dies_at):
        os.kill(os.getpid(), signal.SIGKILL)
    spent = usd * dice.uniform(0.0, 0.2)
    kept.spend(name, spent / 2, "reported")
    kept.settle(Attempt(id=name, agent="a", status="done", cost=Cost(spent, "reported")), spent, 2.0)
"""


@pytest.mark.slow
def test_eight_processes_race_and_die_at_random(tmp_path: Path) -> None:
    store = opened(tmp_path)
    day = Bound(limit=Limit(window="day", usd=20.0), run="r")
    seeds = random.Random(7)
    racing = [
        subprocess.Popen([sys.executable, "-c", SPENDER, str(tmp_path), str(n), str(seeds.randrange(10**6))])
        for n in range(8)
    ]
    kept = Ledger(store, process_identity.is_alive)
    most = 0.0
    while any(process.poll() is None for process in racing):
        most = max(most, sum(kept.spent_and_reserved(day)))
    codes = [process.wait() for process in racing]
    assert {*codes} <= {0, -signal.SIGKILL}, codes
    assert -signal.SIGKILL in codes
    assert 0 < most <= 20.0 + 1e-6
    kept.release_dead(3.0)
    spent, reserved = kept.spent_and_reserved(day)
    lines = kept.history()
    lost = [each for each in lines if each.status == "lost" and each.source == "unknown"]
    assert reserved == pytest.approx(sum(each.reserved for each in lost))  # of those nobody knows what they spent
    assert 0 < spent + reserved <= 20.0 + 1e-6
    assert all(each.settled is not None for each in lines)
    assert spent == pytest.approx(sum(each.spent for each in lines))
    assert len({each.attempt for each in lines}) == len(lines)
    assert store.check_sums() == "ok"  # whoever died within which step


def test_windows_and_costs_are_read_from_sums_of_days_and_quarters(store: Runs) -> None:
    """Entries before, at and after the ends of quarters of an hour and of days, of several agents and repositories."""
    kept, dice, at = ledger(store), random.Random(91), 20_000 * 86_400.0
    moments = [at + step for step in (-1, 0, 0.5, 899.99, 900, 3600, 86_399, 86_400, 90_000, 40 * 86_400)]
    with store.transaction():
        for number in range(60):
            name, usd = f"a{number}", dice.randrange(1, 10**6) / 10**6
            agent = dice.choice(("claude", "codex"))
            entry = structs.replace(
                line(name, usd, at=dice.choice(moments), agent=agent), repo=dice.choice(("/r", "/s"))
            )
            assert kept.reserve(entry, []) is None
            if dice.random() < 0.8:
                kept.spend(name, usd / 2, "metered")
            if dice.random() < 0.6:
                kept.settle(structs.replace(ended(name, usd), model=dice.choice((None, "opus"))), usd, at)
    lines = kept.history()
    for since in (0.0, *moments, at + 400, at + 1800.5):
        for agent in ("", "codex"):
            for repo in ("", "/s"):
                bound = Bound(limit=Limit(window="month", usd=1.0, agent=agent, repo=repo), since=since)
                found = [
                    each
                    for each in lines
                    if each.at >= since
                    and agent in ("", each.agent)
                    and repo in ("", each.repo)
                    and each.attempt != "a7"
                ]
                spent, reserved = kept.spent_and_reserved(bound, besides="a7")
                assert spent == pytest.approx(sum(each.spent for each in found), abs=1e-4)
                assert reserved == pytest.approx(sum(max(0.0, each.reserved - each.spent) for each in found), abs=1e-4)
        later = [each for each in lines if each.at >= since]
        for sums in (kept.cost_sums(since), kept.cost_quarters(since)):
            assert sum(each.attempts for each in sums) == len(later)
            assert sum(each.done for each in sums) == sum(each.status == "done" for each in later)
            assert sum(each.usd for each in sums) == pytest.approx(sum(each.spent for each in later), abs=1e-4)
            assert sum(each.tokens for each in sums) == sum(each.tokens for each in later)
    assert store.check_sums() == "ok"


def test_a_sum_that_is_not_what_entries_add_up_to_is_found(store: Runs) -> None:
    kept = ledger(store)
    kept.reserve(line("a", 1.0), [])
    assert store.check_sums() == "ok"
    store._sql["spoil"] = "UPDATE ledger_days SET spent = spent + 1"
    with store.transaction():
        store.do("spoil")
    assert store.check_sums() == "1 running sums differ from the ledger"
    assert store.integrity() != "ok"
