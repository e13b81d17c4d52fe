"""The queue: taken up at once and in order, from any process; what a dead server left is gone on with."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from corral.engine.queue.run_queue import RunQueue
from corral.model import RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.sqlite.store import Store
from tests.acceptance.test_mcp import done
from tests.rig.command import Corral
from tests.rig.mcp import connected
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]

WRITES = '[[step]]\nsay = "on it"\n[[step]]\nwrite = "hello.txt"\ntext = "hello"\n'
HANGS = '[[step]]\nsay = "started"\n[[step]]\nhang = 600\n'


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def status(corral: Corral, run: str) -> str:
    return corral("show", run, "--json").json["status"]


def test_detached_runs_are_taken_up_by_the_server(corral: Corral, repo: Repo) -> None:
    with serving(corral, corral.root) as server:
        made = corral("run", "--detach", "write it", "--repo", repo.folder, "--agent", corral.script(WRITES), "--json")
        assert (made.code, server.address in made.err) == (0, True)
        assert made.json["status"] in ("queued", "running", "done"), (
            "the server may be quicker than the command's last look"
        )
        run = made.json["run"]
        assert server.client.wait(run).status == "done"
        lines = server.log_lines()
        assert any(line.get("run") == run and line["message"] == "taken up" for line in lines)


def test_without_a_server_a_detached_run_has_a_process_of_its_own(corral: Corral, repo: Repo) -> None:
    made = corral("run", "--detach", "write it", "--repo", repo.folder, "--agent", corral.script(WRITES))
    assert (made.code, "in the background" in made.err) == (0, True)
    run = made.out.strip()
    until(lambda: status(corral, run) == "done", "it is done by itself")
    assert corral("queue", "--json").json["waiting"] == []


async def _listed_by_mcp(corral: Corral) -> dict[str, str]:
    async with connected(corral) as client:
        listed = await done(client, "engine_list")
    return {line["run"]: line["reason"] for line in listed["runs"]}


def test_order_priority_and_hold(corral: Corral, repo: Repo) -> None:
    with serving(corral, corral.root) as server:
        assert corral("queue", "hold").code == 0
        assert corral("queue", "at-once", "1").code == 0
        agent = corral.script(WRITES)
        runs = [
            server.client.submit(f"task {number}", repo=str(repo.folder), agents=[agent], priority=priority).run
            for number, priority in enumerate((0, 0, 0, 5))
        ]
        first, second, third, urgent = runs
        order = [each.run for each in server.client.queue().waiting]
        assert order == [urgent, first, second, third]
        assert server.ask("PATCH", f"queue/{third}", {"before": second}).status == 200
        assert server.ask("PATCH", f"queue/{first}", {"priority": -1}).status == 200
        assert corral("queue", "move", first, "--priority", "-2").code == 0
        order = [each.run for each in server.client.queue().waiting]
        assert order == [urgent, third, second, first]
        assert {server.client.show(run).status for run in runs} == {"queued"}
        assert set(asyncio.run(_listed_by_mcp(corral)).values()) == {"waits in the queue to be taken up"}
        assert server.client.stop(second).status == "stopped"
        assert corral("queue", "go").code == 0
        for run in (urgent, third, first):
            assert server.client.wait(run).status == "done"
        taken = [line["run"] for line in server.log_lines() if line["message"] == "taken up"]
        assert taken == [urgent, third, first]


def test_a_killed_server_loses_nothing(corral: Corral, repo: Repo) -> None:
    with serving(corral, corral.root) as server:
        corral("queue", "at-once", "1")
        hanging = corral.script(HANGS, "hangs.toml")
        run = server.client.submit("first", repo=str(repo.folder), agents=[hanging]).run
        corral.until_said("started", run)
        later = server.client.submit("second", repo=str(repo.folder), agents=[corral.script(WRITES)]).run
        server.kill()
        assert corral("show", run, "--json").json["reason"].startswith("its process is gone")
    Path(corral.root / "hangs.toml").write_text(WRITES)  # what it does at its next start
    with serving(corral, corral.root) as server:
        assert server.client.wait(run).status == "done"
        assert server.client.wait(later).status == "done"
        events = server.corral.events(run)
        assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})


def test_a_server_that_is_stopped_leaves_its_runs_to_the_next(corral: Corral, repo: Repo) -> None:
    with serving(corral, corral.root) as server:
        run = server.client.submit("t", repo=str(repo.folder), agents=[corral.script(HANGS)]).run
        corral.until_said("started", run)
        assert server.end() == 0
    assert status(corral, run) == "running"
    with serving(corral, corral.root, "--no-resume") as server:
        shown = server.client.show(run)
        assert (shown.status, (shown.reason or "").startswith("its process is gone")) == ("running", True)
        corral.script(WRITES)
        server.client.resume(run)
        assert server.client.wait(run).status == "done"


def test_a_store_has_one_server(corral: Corral) -> None:
    with serving(corral, corral.root) as server:
        second = corral("serve", "--port", "0", "--root", corral.root)
        assert second.code != 0
        assert "this store is served already" in second.err
        server.kill()
    with serving(corral, corral.root) as server:
        assert server.ask("GET", "runs").status == 200


def test_the_processes_of_its_agents_are_gone_with_it(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("sleeps", "echo started; exec sleep 98765")
    with serving(corral, corral.root) as server:
        run = server.client.submit("t", repo=str(repo.folder), agents=[agent]).run
        corral.until_said("started", run)
        assert sleepers()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        until(lambda: not sleepers(), "its agents are gone")


def sleepers() -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"98765" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def test_ten_thousand_runs_are_listed_page_by_page(corral: Corral) -> None:
    store = corral.store()
    plan = RunPlan(
        flow=strategies.single(Task(prompt="do it"), AgentChoice("a")), repo="/r", git_dir="/r", base=None, into=None
    )
    with store.transaction():
        for number in range(10_000):
            name = names.run_id(1_700_000_000_000 + number * 1000, number)
            state = "done" if number % 10 else "failed"
            store.add_run(RunRecord(id=name, status=state, reason=None, plan=plan, created=1.7e9 + number))
    store.close()
    with serving(corral, corral.root, "--rate", "0") as server:
        found = [line.run for line in server.client.all_runs()]
        assert found == sorted(set(found), reverse=True)
        assert len(found) == 10_000
        assert len(list(server.client.all_runs(status="failed"))) == 1000
        assert len(list(server.client.all_runs(q="DO IT", status="failed", repo="/r"))) == 1000
        assert server.client.runs(q="nothing like it").runs == []
        since = server.ask("GET", "runs?since=2023-11-14T23:00:00Z&limit=500").json
        assert len(since["runs"]) < 10_000


def test_of_two_at_once_with_one_key_the_first_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = RunPlan(
        flow=strategies.single(Task(prompt="do it"), AgentChoice("a")), repo="/r", git_dir="/r", base=None, into=None
    )
    record = RunRecord(id="aaa1", status="queued", reason=None, plan=plan, created=time.time())
    store.add_run(record)
    store.queue.enqueue(record, priority=0, by="me", key=("k", "digest"))
    assert store.queue.find_submission("k") == ("digest", "aaa1")
    assert [each.run for each in RunQueue(store).next(10)] == ["aaa1"]
    assert json.loads(json.dumps(RunQueue(store).concurrency)) == 4
    store.close()
