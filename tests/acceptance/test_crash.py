"""`kill -9` of corral at any moment, then `resume`: nothing finished is done again, nothing is left behind."""

import contextlib
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral, RunningCommand
from tests.rig.repository import Repo
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores
BY_DAY, BY_NIGHT = 20, 100  #: moments
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
@pytest.mark.parametrize("moments", [BY_DAY, pytest.param(BY_NIGHT, marks=pytest.mark.night("more of the same kills"))])
def test_killed_at_random_moments_a_run_goes_on_as_if_nothing_had_happened(corral: Corral, moments: int) -> None:
    chance = random.Random(moments)
    agent = corral.script(SCRIPT)
    words = ("--agent", agent, "--check", "test -f one.txt -a -f two.txt -a -f three.txt && sleep 0.1", "--json")
    started = time.monotonic()
    assert corral("run", "a task", "--repo", corral.repo("measured").folder, *words).json["status"] == "done"
    killing = Killing(corral, words, chance, whole_seconds=time.monotonic() - started)
    cut_off = 0
    for moment in range(moments):
        cut_off += killing.kill_and_resume(corral.repo(f"repo-{moment}"), by_time=moment % 2 == 0)
    assert cut_off >= moments // 4, "hardly any run was cut off: the moments are badly chosen"


class Killing:
    """Kills runs at chance moments: by the clock, which falls anywhere, or by what was told, which no load can shift."""

    def __init__(self, corral: Corral, words: tuple[str, ...], chance: random.Random, whole_seconds: float) -> None:
        self.corral, self._words, self._chance, self._whole_seconds = corral, words, chance, whole_seconds
        self._events = self._told()
        self._known = {line["run"] for line in corral("ls", "--json").json}

    def kill_and_resume(self, repo: Repo, *, by_time: bool) -> bool:
        """Run, kill, resume; return whether there was something to resume."""
        corral = self.corral
        with corral.going("run", "a task", "--repo", repo.folder, *self._words) as going:
            if by_time:
                self._wait(going, self._chance.uniform(0.15, 1.0))
            else:
                last = self._told() + self._chance.randrange(self._events)
                until(lambda: going.process.poll() is not None or self._told() >= last, "it gets so far")
                self._wait(going, self._chance.uniform(0.0, 0.05))
        new = [line for line in corral("ls", "--json").json if line["run"] not in self._known]
        if not new:
            kept = repo.refs("refs/corral/", "refs/heads/corral/")  # killed before anything was promised
            assert all(ref.startswith("refs/corral/bases/") for ref in kept), kept
            return False
        run = new[0]["run"]
        self._known.add(run)
        until(lambda: not _agents(run), "the agent is gone with its engine")
        open_before = new[0]["status"] in ("queued", "running")
        resumed = corral("resume", run, "--json")
        assert resumed.code == (0 if open_before else 2), resumed
        _judge(corral, repo, resumed.json if open_before else corral("show", run, "--json").json)
        return open_before

    def _wait(self, going: RunningCommand, share: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            going.process.wait(share * self._whole_seconds)

    def _told(self) -> int:
        """Return how many events there are, of all runs."""
        return self.corral.stored("SELECT count(*) FROM events")[0][0]


def _agents(run: str) -> list[int]:
    """Return what runs in boxes of this run; an empty box that waits for its dead parent is ended by `resume`."""
    found: list[int] = []
    for pid in tagged_processes(f"CORRAL_ATTEMPT={run}"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() != "bwrap":
                found.append(pid)
    return found


def _judge(corral: Corral, repo: Repo, document: dict[str, Any]) -> None:
    run = document["run"]
    assert document["status"] == "done", document
    winner = document["nodes"][0]["attempts"][-1]
    assert {"one.txt", "two.txt", "three.txt"} <= set(repo.files(winner["branch"]))
    assert repo.receipt(winner["commit"])["commit"] == winner["commit"]
    endings = [event for event in corral.events(run) if event["type"] == "ended" and event["ok"]]
    assert len(endings) == 1, "an agent that had finished was started again"
    assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
    assert corral.leavings() == []
    assert not list((repo.folder / ".git").rglob("*.lock"))
    assert repo.git("status", "--porcelain") == ""
    assert corral.is_sound()
    assert corral.stored("SELECT count(*) FROM slots") == [(0,)]
