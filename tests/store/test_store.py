"""The store: what is written reads back, leases are exclusive, other processes are heard at once, trouble is told."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.model import Attempt, AttemptRecord, CheckResult, Failure, RunPlan, RunRecord, Tokens
from corral.model.errors import BadRequest, TakenOver
from corral.model.events import (
    Asked,
    CalledTool,
    Checked,
    Ended,
    Event,
    Noted,
    Said,
    Spent,
    Started,
    StatusChanged,
    Unparsed,
)
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.parts.ledger import Ledger
from corral.store.parts.runs import Runs
from corral.world import locks, process
from corral.world.locks import Fence
from corral.world.process import ProcessStart
from tests.rig.stores import opened
from tests.rig.tries import tries

PLAN = RunPlan(
    flow=strategies.single(Task(prompt="do"), AgentChoice("a")), repo="/r", git_dir="/r/.git", base=None, into=None
)


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    made = opened(tmp_path)
    made.add_run(RunRecord(id="aaa1", status="queued", reason=None, plan=PLAN, created=1.0))
    return made


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
events = st.one_of(
    st.builds(Said, text),
    st.builds(CalledTool, text, text, text),
    st.builds(Started, st.none() | text, st.none() | text),
    st.builds(Spent, st.builds(Tokens, st.integers(0, 10**9), st.integers(0, 10**9)), st.none() | st.floats(0, 1e6)),
    st.builds(Asked, text),
    st.builds(Unparsed, text),
    st.builds(Noted, text),
    st.builds(Ended, ok=st.booleans(), text=text, error=st.none() | st.builds(Failure, st.just("auth"), text, text)),
    st.builds(Checked, st.builds(CheckResult, command=text, exit_code=st.integers(-15, 255), seconds=st.floats(0, 9))),
    st.builds(StatusChanged, st.just("node"), text, st.just("done"), st.none() | text),
)


@given(st.lists(events, max_size=30))
@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_event_reads_back(store: Runs, told: list[Event]) -> None:
    before = store.events("aaa1")
    for event in told:
        store.note("aaa1", event, at=2.0, node="main", attempt="aaa1-1")
    store.flush()
    after = store.events("aaa1", before[-1].seq if before else 0)
    assert [stored.event() for stored in after] == told
    assert [stored.seq for stored in after] == sorted({stored.seq for stored in after})


def test_a_transaction_is_all_or_nothing(store: Runs) -> None:
    def broken() -> None:
        with store.transaction():
            store.move_run("aaa1", "running", None, None)
            store.note("aaa1", Said("x"), at=1.0)
            raise ValueError

    with pytest.raises(ValueError):
        broken()
    assert store.run("aaa1").status == "queued"


def test_attempts_read_back(store: Runs) -> None:
    record = AttemptRecord(attempt=Attempt(id="aaa1-1", agent="a", output={"x": [1]}), run="aaa1", node="main")
    store.save_attempt(record)
    record.phase = "over"
    store.save_attempt(record)
    assert store.attempts("aaa1") == [record]
    assert store.next_place("aaa1") == 2


def test_a_run_is_found_by_prefix_and_last(store: Runs) -> None:
    store.add_run(RunRecord(id="aaa2", status="queued", reason=None, plan=PLAN, created=2.0))
    store.add_run(RunRecord(id="bbb1", status="queued", reason=None, plan=PLAN, created=3.0))
    assert store.find("b") == "bbb1"
    assert store.find("aaa2") == "aaa2"
    assert store.find("@last") == "bbb1"
    for name in ("a", "zzz", "", "%", "aaa1x"):
        with pytest.raises(BadRequest):
            store.find(name)


def test_a_lease_has_one_owner_until_it_runs_out_or_is_known_dead(store: Runs) -> None:
    assert store.take_lease("aaa1", "me", now=0, until=10)
    assert not store.take_lease("aaa1", "you", now=5, until=15)
    assert store.renew_lease("aaa1", "me", 20)
    assert not store.renew_lease("aaa1", "you", 20)
    assert store.take_lease("aaa1", "you", now=5, until=15, loser="me")
    assert not store.renew_lease("aaa1", "me", 30)
    assert store.take_lease("aaa1", "she", now=16, until=30)
    store.release_lease("aaa1", "she")
    assert store.take_lease("aaa1", "me", now=17, until=30)


def test_an_owner_that_lost_its_run_writes_nothing_more_and_starts_nothing(store: Runs, tmp_path: Path) -> None:
    assert store.take_lease("aaa1", "me", now=0, until=10)
    assert store.take_lease("aaa1", "me", now=1, until=11)  # the same owner: the same epoch
    assert store.epoch("aaa1") == 2
    mine = Fence("aaa1", 2, store.epoch)
    record = AttemptRecord(attempt=Attempt(id="aaa1-1", agent="a"), run="aaa1", node="main")
    with locks.act_within(mine):
        store.save_attempt(record)
        store.note("aaa1", Said("late"), at=1.0)
    other = opened(tmp_path)
    assert other.take_lease("aaa1", "you", now=12, until=30)
    with locks.act_within(mine):
        for write in (
            lambda: store.move_run("aaa1", "done", None, 1.0),
            lambda: store.save_attempt(record),
            lambda: Ledger(store, lambda _: None).spend("aaa1-1", 1.0, "reported"),
            store.flush,
            lambda: asyncio.run(process.run(ProcessStart(argv=["touch", str(tmp_path / "started")], env={}))),
        ):
            with pytest.raises(TakenOver, match="another process has taken over run aaa1"):
                write()
    store.close()
    assert not (tmp_path / "started").exists()
    assert (other.run("aaa1").status, other.run("aaa1").epoch, other.events("aaa1")) == ("queued", 3, [])
    with other.snapshot():
        assert [row for page in other.table("attempts", ["epoch"]) for row in page] == [(2,)]
    other.close()


WRITER = """
import sys, time
from pathlib import Path
from corral.model.events import Said
from corral.store.opening import open_store
store = open_store(Path(sys.argv[1]))
sys.stdin.readline()
store.note("aaa1", Said(str(time.monotonic())), at=1.0)
store.flush()
sys.stdin.readline()
"""


def test_another_process_is_heard_without_looking(store: Runs) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.folder)], stdin=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin
        bell = store.watch()
        before = store.data_version()
        writer.stdin.write("\n")
        writer.stdin.flush()
        deadline = time.monotonic() + 30
        while store.data_version() == before:
            bell.wait(deadline - time.monotonic())  # were it not rung, the test would wait in vain
            assert time.monotonic() < deadline
        bell.close()
        assert len(store.events("aaa1")) == 1
        writer.stdin.write("\n")
        writer.stdin.flush()


def test_two_processes_that_make_it_at_once_make_it_once(tmp_path: Path) -> None:
    program = (
        f"from pathlib import Path; from corral.store.opening import open_store; open_store(Path({str(tmp_path)!r}))"
    )
    makers = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(6)]
    for maker in makers:
        _, errors = maker.communicate(timeout=60)
        assert maker.returncode == 0, errors.decode()
    assert opened(tmp_path).integrity() == "ok"


def test_names_of_attempts_follow_their_run() -> None:
    assert names.branch("r", "main", names.attempt_id("r", 3)) == "corral/r/main/r-3"
