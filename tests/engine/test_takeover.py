"""Runs that change hands: what is taken along, what blocks it, what is told."""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest

from corral.engine import control
from corral.engine.engine import Engine
from corral.engine.views import run_document
from corral.model import RunPlan, RunRecord
from corral.model.errors import BadRequest, CorralError, StoreTrouble
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.store.parts.families import Lineage
from corral.store.records import Child, SlotOwner
from corral.store.sqlite.store import SIGNAL_FILE, Store
from corral.world import locks, process_identity
from corral.world.locks import LockHeld, hold_lock
from tests.rig.waiting import until

PLAN = RunPlan(
    flow=strategies.single(Task(prompt="do"), AgentChoice("a")), repo="/r", git_dir="/r/.git", base=None, into=None
)
ELSEWHERE = "another-machine/boot/1/1"


def stored(engine: Engine) -> Store:
    """Return the engine's store, which is one in SQLite."""
    assert isinstance(engine._store, Store)
    return engine._store


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Engine]:
    opened = Engine(tmp_path)
    yield opened
    opened.close()


def add(engine: Engine, run: str, owner: str, lease_seconds: float) -> None:
    until_ = time.time() + lease_seconds
    record = RunRecord(
        id=run, status="running", reason=None, plan=PLAN, created=1.0, owner=owner, lease_until=until_
    )  # fmt: skip
    stored(engine).add_run(record)


def test_children_of_a_run_are_taken_along(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, -1)
    for run, owner in (("aaa2", ELSEWHERE), ("aaa3", "third-machine/boot/1/1")):
        add(engine, run, owner, 15)
        Lineage(stored(engine)).add(
            Child(run=run, root="aaa1", parent="aaa1", node="main", attempt="aaa1-1", depth=1, budget_usd=None, at=1.0)
        )
    assert engine.active_runs.take_over("aaa1")
    owners = [stored(engine).run(run).owner for run in ("aaa1", "aaa2", "aaa3")]
    assert owners == [engine._context.owner, engine._context.owner, "third-machine/boot/1/1"]
    assert [stored(engine).epoch(run) for run in ("aaa1", "aaa2", "aaa3")] == [2, 2, 1]


def test_a_live_owner_keeps_its_run_unless_it_is_forced(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, 60)
    with pytest.raises(BadRequest, match=r"driven by another process \(a process on another-machine,") as told:
        asyncio.run(engine.active_runs.own("aaa1"))
    assert re.search(r"in [3-6][0-9] s", told.value.hint)
    assert "--force" in told.value.hint
    assert stored(engine).epoch("aaa1") == 1
    asyncio.run(engine.active_runs.own("aaa1", force=True))
    assert (stored(engine).run("aaa1").owner, stored(engine).epoch("aaa1")) == (engine._context.owner, 2)


def test_a_waiting_run_of_a_live_owner_stays_as_it_is(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, 60)
    stored(engine).move_run("aaa1", "waiting", "a gate", None)
    with pytest.raises(BadRequest, match="driven by another process"):
        asyncio.run(engine.resume("aaa1", lambda _: None))
    assert stored(engine).status("aaa1") == "waiting"


def test_a_run_that_is_over_is_waited_for_while_this_process_cleans_up(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, 15)
    stored(engine).move_run("aaa1", "stopped", None, time.time())
    loops = cast("dict[str, object]", engine.active_runs._loops)
    loops["aaa1"] = "its loop"

    async def retry_at_once() -> None:
        owning = asyncio.create_task(engine.active_runs.own("aaa1"))
        await asyncio.sleep(0.1)
        assert not owning.done()
        del loops["aaa1"]
        await owning

    asyncio.run(retry_at_once())
    assert stored(engine).run("aaa1").owner == engine._context.owner


def test_asking_for_a_run_in_vain_wakes_nobody(engine: Engine, tmp_path: Path) -> None:
    """Who waits for a run asks at each change of the store: a change made by asking would have them ask without end."""
    add(engine, "aaa1", ELSEWHERE, 15)
    before = (tmp_path / SIGNAL_FILE).stat().st_mtime_ns
    assert not engine.active_runs.take_over("aaa1")
    later = time.time()
    assert not stored(engine).take_lease("aaa1", "third-machine/boot/1/1", now=later, until=later + 15)
    assert (tmp_path / SIGNAL_FILE).stat().st_mtime_ns == before
    assert engine.active_runs.take_over("aaa1", force=True)
    assert (tmp_path / SIGNAL_FILE).stat().st_mtime_ns > before


def test_a_lease_from_before_the_clock_was_set_back_is_out(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, 3600)
    assert "does not answer" in (run_document.build(stored(engine), "aaa1").reason or "")
    asyncio.run(engine.active_runs.own("aaa1"))
    assert (stored(engine).run("aaa1").owner, stored(engine).epoch("aaa1")) == (engine._context.owner, 2)


def test_a_silent_owner_is_named_where_a_run_is_shown(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, -1)
    assert "does not answer" in (run_document.build(stored(engine), "aaa1").reason or "")


def test_a_run_of_a_silent_owner_elsewhere_is_paused_and_taken_from_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.0)
    add(engine, "aaa1", ELSEWHERE, 60)
    assert asyncio.run(engine.control.pause("aaa1", "main", "me")) == "it is paused as soon as its process hears of it"
    assert "reads the order" in asyncio.run(engine.control.unpause("aaa1", "main", "me"))
    add(engine, "aaa2", ELSEWHERE, -1)
    assert "continues with the run" in asyncio.run(engine.control.unpause("aaa2", "main", "me"))
    assert asyncio.run(engine.control.pause("aaa2", None, "me")) == "paused; nobody was driving it"
    record = stored(engine).run("aaa2")
    assert (record.status, record.owner, stored(engine).epoch("aaa2")) == ("paused", None, 2)
    assert [each.verb for each in stored(engine).orders("aaa2")] == []


def test_what_an_earlier_owner_holds_is_freed(engine: Engine) -> None:
    add(engine, "aaa1", ELSEWHERE, -1)
    old = SlotOwner(run="aaa1", owner=ELSEWHERE, repo="/r")
    with stored(engine).transaction():
        stored(engine).slots.hold(old, "aaa1-1", "a")
    stored(engine).slots.take_over(SlotOwner(run="aaa1", owner=engine._context.owner, repo="/r"))
    assert stored(engine).rows("slots") == []


HOLDS_LOCK = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
OWNS_AND_HOLDS = (
    """
import sqlite3, sys
from corral.world import process_identity
database = sqlite3.connect(sys.argv[2], isolation_level=None)
database.execute("UPDATE runs SET owner = ?", (process_identity.own_name(),))
database.close()
"""
    + HOLDS_LOCK
)
WRITES = """
import os, sqlite3, sys
from corral.world import process_identity
database = sqlite3.connect(sys.argv[1], isolation_level=None)
if len(sys.argv) > 2:
    database.execute("UPDATE runs SET owner = ?", (process_identity.own_name(),))
database.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def stopped(program: str, file: Path, *more: str) -> Generator[int]:
    """Run a program until it holds a lock, then stop it by a signal."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{holder.pid}/stat")
        until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
        try:
            yield holder.pid
        finally:
            holder.kill()


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "SAY_SECONDS", 0.1)

    async def lock() -> None:
        async with hold_lock(tmp_path / "lock"):
            raise AssertionError

    with stopped(HOLDS_LOCK, tmp_path / "lock") as pid:
        with pytest.raises(CorralError, match=f"process {pid} is stopped") as told:
            asyncio.run(lock())
        assert f"kill -9 {pid}" in told.value.hint


def wait_for_lock(file: Path, say: locks.Say, **more: float) -> None:
    async def lock() -> None:
        async with hold_lock(file, say=say, **more):
            pass

    asyncio.run(lock())


def test_a_holder_that_does_not_release_a_lock_is_named_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SAY_SECONDS", 0.1)
    said: list[str] = []
    with stopped(HOLDS_LOCK, tmp_path / "lock") as pid:
        os.kill(pid, signal.SIGCONT)  # it hangs, but is not suspended
        until(lambda: not process_identity.is_suspended(pid), "it continues")
        with pytest.raises(LockHeld, match=f"process {pid} ") as raised:
            wait_for_lock(tmp_path / "lock", said.append, holder_seconds=0.5)
    assert f"kill {pid}" in raised.value.hint
    assert len(said) == 1
    assert re.search(
        rf"waiting for process {pid} \(.+\), which holds the lock .+ for [0-9]+ s; to end it: kill {pid}", said[0]
    )


def test_a_suspended_holder_that_lost_its_run_is_ended(engine: Engine, tmp_path: Path) -> None:
    for lease_seconds, force in ((-1, False), (60, True)):
        with contextlib.closing(sqlite3.connect(stored(engine).path)) as database:
            database.execute("DELETE FROM nodes")
            database.execute("DELETE FROM runs")
            database.commit()
        add(engine, "aaa1", ELSEWHERE, lease_seconds)
        with stopped(OWNS_AND_HOLDS, tmp_path / "lock", str(stored(engine).path)) as pid:
            if force:
                assert (engine.active_runs.end_suspended(pid) or 0) > 0
                asyncio.run(engine.active_runs.own("aaa1", force=True))
            with locks.wait_by(locks.WaitPolicy(print, engine.active_runs.end_suspended)):
                wait_for_lock(tmp_path / "lock", print)
            assert not process_identity.started_at(pid)


def test_a_lock_passed_on_to_a_program_names_that_program(tmp_path: Path) -> None:
    passes_on = HOLDS_LOCK.replace(
        'print("held"',
        'os.set_inheritable(descriptor, True)\nos.posix_spawn("/bin/sleep", ["sleep", "600"], {})\nprint("held"',
    )
    with stopped(passes_on, tmp_path / "lock") as pid:
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    until(lambda: not process_identity.started_at(pid), "the first holder is gone")
    assert process_identity.lock_holder(tmp_path / "lock") == child
    assert process_identity.program_of(child) == "sleep"
    os.kill(child, signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_was_stopped_while_it_wrote_is_named_and_ended_by_force(engine: Engine) -> None:
    file = stored(engine).path
    with stopped(WRITES, file) as pid:
        with pytest.raises(StoreTrouble, match=f"process {pid} is stopped") as told:
            stored(engine).cool_down("a", 1.0, "no")
        assert f"kill -9 {pid}" in told.value.hint
    with stopped(WRITES, file) as pid:
        assert engine.active_runs.unblock(force=True) == 0.0  # it drives no run of ours: left alone
        assert stored(engine).blocked_by() == pid
    for lease_seconds, force in ((-1, False), (60, True)):
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute("DELETE FROM nodes")
            database.execute("DELETE FROM runs")
            database.commit()
        add(engine, "aaa1", ELSEWHERE, lease_seconds)
        with stopped(WRITES, file, "owns the run") as pid:
            assert stored(engine).blocked_by() == pid
            assert (engine.active_runs.unblock() > 0) == (lease_seconds > 0)
            assert engine.active_runs.unblock(force=force) == 0.0
            assert engine.active_runs.take_over("aaa1", force=force)
