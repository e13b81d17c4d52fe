"""`kill -9` of corral at any moment, then `resume`: nothing finished is done again, nothing is left behind."""

import contextlib
import random
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.tagged import tagged
from tests.rig.waiting import until

MOMENTS = 50
SCRIPT = """
[[step]]
say = "one"
[[step]]
write = "one.txt"
text = "one"
[[step]]
run = "sleep 0.15"
[[step]]
write = "two.txt"
text = "two"
[[step]]
run = "git add -A && git commit -qm half"
[[step]]
write = "three.txt"
text = "three"
[[step]]
spend = 0.01
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("half", [0, 1])
def test_killed_at_random_moments_a_run_goes_on_as_if_nothing_had_happened(corral: Corral, half: int) -> None:
    chance = random.Random(half)
    agent = corral.script(SCRIPT)
    check = ("--check", "test -f one.txt -a -f two.txt -a -f three.txt && sleep 0.1")
    repo = corral.repo("measured")
    started = time.monotonic()
    assert corral.run(repo, "a task", "--agent", agent, *check).json["status"] == "done"
    whole = time.monotonic() - started
    cut_off = 0
    for moment in range(MOMENTS // 2):
        repo = corral.repo(f"repo-{moment}")
        cut_off += _kill_and_resume(corral, repo, agent, check, chance.uniform(0.15, 1.0) * whole)
    assert cut_off >= 2, "hardly any run was cut off: the moments are badly chosen"


def _kill_and_resume(corral: Corral, repo: Repo, agent: str, check: tuple[str, ...], delay: float) -> bool:
    """Run, kill, resume; return whether there was something to resume."""
    before = {line["run"] for line in corral("ls", "--json").json}
    argv = [*corral.program, "run", "a task", "--repo", str(repo.folder), "--agent", agent, *check, "--json"]
    process = subprocess.Popen(
        argv, cwd=corral.root, env=corral.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    new = [line for line in corral("ls", "--json").json if line["run"] not in before]
    if not new:
        assert not repo.refs("refs/corral/", "refs/heads/corral/")  # killed before anything was promised
        return False
    run = new[0]["run"]
    until(lambda: not _agents(run), "the agent is gone with its engine")
    open_before = new[0]["status"] in ("queued", "running")
    resumed = corral("resume", run, "--json")
    assert resumed.code == (0 if open_before else 2), resumed
    _judge(corral, repo, run)
    return open_before


def _agents(run: str) -> list[int]:
    """Return what runs in boxes of this run; an empty box that waits for its dead parent is ended by `resume`."""
    found: list[int] = []
    for pid in tagged(f"CORRAL_ATTEMPT={run}"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() != "bwrap":
                found.append(pid)
    return found


def _judge(corral: Corral, repo: Repo, run: str) -> None:
    document = corral("show", run, "--json").json
    assert document["status"] == "done", document
    winner = document["nodes"][0]["attempts"][-1]
    assert {"one.txt", "two.txt", "three.txt"} <= set(repo.files(winner["branch"]))
    assert repo.receipt(winner["commit"])["commit"] == winner["commit"]
    endings = [event for event in corral.events(run) if event["type"] == "ended" and event["ok"]]
    assert len(endings) == 1, "an agent that had finished was started again"
    assert not tagged(f"CORRAL_ATTEMPT={run}")
    assert corral.leavings() == []
    assert not list((repo.folder / ".git").rglob("*.lock"))
    assert repo.git("status", "--porcelain") == ""
    with sqlite3.connect(corral.home / "corral.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database.close()
