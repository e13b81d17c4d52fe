"""The store: what is written reads back, leases are exclusive, other processes are heard at once, trouble is told."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.model import Attempt, AttemptRecord, CheckResult, Failure, RunPlan, RunRecord, Tokens
from corral.model.errors import BadRequest, StoreTrouble, TakenOver
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
from corral.store.signal import ChangeWatch
from corral.store.sqlite.store import Store
from corral.world import locks, process
from corral.world.locks import Fence
from corral.world.process import ProcessStart
from tests.rig.tries import tries
from tests.rig.waiting import until

PLAN = RunPlan(
    flow=strategies.single(Task(prompt="do"), AgentChoice("a")), repo="/r", git_dir="/r/.git", base=None, into=None
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store(tmp_path)
    opened.add_run(RunRecord(id="aaa1", status="queued", reason=None, plan=PLAN, created=1.0))
    return opened


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
def test_every_event_reads_back(store: Store, told: list[Event]) -> None:
    before = store.events("aaa1")
    for event in told:
        store.note("aaa1", event, at=2.0, node="main", attempt="aaa1-1")
    store.flush()
    after = store.events("aaa1", before[-1].seq if before else 0)
    assert [stored.event() for stored in after] == told
    assert [stored.seq for stored in after] == sorted({stored.seq for stored in after})


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    def broken() -> None:
        with store.transaction():
            store.move_run("aaa1", "running", None, None)
            store.note("aaa1", Said("x"), at=1.0)
            raise ValueError

    with pytest.raises(ValueError):
        broken()
    assert store.run("aaa1").status == "queued"


def test_attempts_read_back(store: Store) -> None:
    record = AttemptRecord(attempt=Attempt(id="aaa1-1", agent="a", output={"x": [1]}), run="aaa1", node="main")
    store.save_attempt(record)
    record.phase = "over"
    store.save_attempt(record)
    assert store.attempts("aaa1") == [record]
    assert store.next_place("aaa1") == 2


def test_a_run_is_found_by_prefix_and_last(store: Store) -> None:
    store.add_run(RunRecord(id="aaa2", status="queued", reason=None, plan=PLAN, created=2.0))
    store.add_run(RunRecord(id="bbb1", status="queued", reason=None, plan=PLAN, created=3.0))
    assert store.find("b") == "bbb1"
    assert store.find("aaa2") == "aaa2"
    assert store.find("@last") == "bbb1"
    for name in ("a", "zzz", "", "%", "aaa1x"):
        with pytest.raises(BadRequest):
            store.find(name)


def test_a_lease_has_one_owner_until_it_runs_out_or_is_known_dead(store: Store) -> None:
    assert store.take_lease("aaa1", "me", now=0, until=10)
    assert not store.take_lease("aaa1", "you", now=5, until=15)
    assert store.renew_lease("aaa1", "me", 20)
    assert not store.renew_lease("aaa1", "you", 20)
    assert store.take_lease("aaa1", "you", now=5, until=15, loser="me")
    assert not store.renew_lease("aaa1", "me", 30)
    assert store.take_lease("aaa1", "she", now=16, until=30)
    store.release_lease("aaa1", "she")
    assert store.take_lease("aaa1", "me", now=17, until=30)


def test_an_owner_that_lost_its_run_writes_nothing_more_and_starts_nothing(store: Store, tmp_path: Path) -> None:
    assert store.take_lease("aaa1", "me", now=0, until=10)
    assert store.take_lease("aaa1", "me", now=1, until=11)  # the same owner: the same epoch
    assert store.epoch("aaa1") == 2
    mine = Fence("aaa1", 2, store.epoch)
    record = AttemptRecord(attempt=Attempt(id="aaa1-1", agent="a"), run="aaa1", node="main")
    with locks.act_within(mine):
        store.save_attempt(record)
        store.note("aaa1", Said("late"), at=1.0)
    other = Store(tmp_path)
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
    with contextlib.closing(sqlite3.connect(tmp_path / "corral.db")) as database:
        assert database.execute("SELECT epoch FROM attempts").fetchall() == [(2,)]


WRITER = """
import sys, time
from pathlib import Path
from corral.model.events import Said
from corral.store.sqlite.store import Store
store = Store(Path(sys.argv[1]))
sys.stdin.readline()
store.note("aaa1", Said(str(time.monotonic())), at=1.0)
store.flush()
sys.stdin.readline()
"""


def test_another_process_is_heard_without_looking(store: Store) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.folder)], stdin=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin
        bell = ChangeWatch(store.folder)
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


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    with pytest.raises(StoreTrouble, match="newer corral") as told:
        Store(tmp_path)
    assert "upgrade" in told.value.hint


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "corral.db").write_text("this is not a database, but a text " * 100)
    with pytest.raises(StoreTrouble, match="not a database") as told:
        Store(tmp_path)
    assert "move that file away" in told.value.hint


def test_two_processes_that_make_it_at_once_make_it_once(tmp_path: Path) -> None:
    program = f"from pathlib import Path; from corral.store.sqlite.store import Store; Store(Path({str(tmp_path)!r}))"
    makers = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(6)]
    for maker in makers:
        _, errors = maker.communicate(timeout=60)
        assert maker.returncode == 0, errors.decode()
    assert Store(tmp_path).integrity() == "ok"


def test_names_of_attempts_follow_their_run() -> None:
    assert names.branch("r", "main", names.attempt_id("r", 3)) == "corral/r/main/r-3"


def test_a_step_that_lands_later_than_a_higher_one_is_taken_all_the_same(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        database.execute("DROP TABLE inbox")
        database.execute("DELETE FROM migrations WHERE number = 7")
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        assert database.execute("SELECT count(*) FROM inbox").fetchone() == (0,)


def test_a_new_store_waits_for_another_process_that_makes_it_too(tmp_path: Path) -> None:
    """SQLite itself does not wait there: of the first two commands in a fresh state folder, one failed."""

    def open_files(path: Path) -> int:
        return sum(each.is_symlink() and each.readlink() == path for each in Path("/proc/self/fd").iterdir())

    for number in range(10):
        path = tmp_path / str(number) / "corral.db"
        path.parent.mkdir()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
            other.execute("BEGIN IMMEDIATE")
            opened = pool.submit(lambda: Store(path.parent).close())  # noqa: B023 -- it ends within this round
            until(lambda: open_files(path) > 1 or opened.done(), "it has opened the file")  # noqa: B023
            other.execute("ROLLBACK")
            opened.result(timeout=60)
