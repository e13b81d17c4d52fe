"""A process that hangs loses its runs when their lease is out: they are stopped, halted, resumed; nothing runs twice."""

import contextlib
import signal
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from corral.world import process_identity
from tests.rig.command import Corral, RunningCommand
from tests.rig.person import Person
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

SLEEPS = """
[[step]]
write = "half.txt"
text = "half"
[[step]]
spend = 0.01
[[step]]
say = "half done"
[[step]]
run = "if test -e rest.txt; then exit 0; fi; echo rest > rest.txt; sleep 600"
[[step]]
write = "whole.txt"
text = "whole"
"""


pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@contextlib.contextmanager
def stuck(corral: Corral, repo: Repo) -> Generator[tuple[RunningCommand, str]]:
    """Start a run and stop its process by a signal while its agent works."""
    agent = corral.script(SLEEPS)
    corral("ls")  # makes what a test wrote the user's own
    with corral.going("run", "a task", "--repo", repo.folder, "--agent", agent, "--json") as going:
        corral.until_said("half done")
        run = corral("ls", "--json").json[0]["run"]
        until(lambda: list(corral.home.glob("workspaces/*/work/rest.txt")), "the agent sleeps")
        going.signal(signal.SIGSTOP)
        yield going, run


def stored(corral: Corral, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db", isolation_level=None)) as database:
        return database.execute(sql).fetchall()


def let_lease_run_out(corral: Corral) -> None:
    stored(corral, "UPDATE runs SET lease_until = 1")


def wakes_up_and_leaves(corral: Corral, going: RunningCommand) -> None:
    """Wake the old owner: it ends by itself, says why, and changes nothing."""
    before = (stored(corral, "SELECT * FROM runs"), stored(corral, "SELECT * FROM events"))
    going.signal(signal.SIGCONT)
    outcome = going.end()
    assert outcome.code == 1, outcome
    assert "another process has taken over run" in outcome.err
    assert "corral itself failed" not in outcome.err
    assert (stored(corral, "SELECT * FROM runs"), stored(corral, "SELECT * FROM events")) == before


def test_resume_takes_a_stuck_run_over_and_the_old_process_does_nothing_more(corral: Corral, repo: Repo) -> None:
    with stuck(corral, repo) as (going, run):
        early = corral("resume", run)
        assert early.code == 2, early
        assert f"process {going.process.pid}" in early.err
        assert "SIGSTOP" in early.err
        assert "--force" in early.err
        let_lease_run_out(corral)
        assert "does not answer" in corral("show", run).out
        outcome = corral("resume", run, "--json")
        assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
        wakes_up_and_leaves(corral, going)
    first, second = outcome.json["nodes"][0]["attempts"]
    assert (first["status"], second["status"]) == ("stopped", "done")
    assert {"half.txt", "rest.txt"} <= set(first["files_changed"])
    assert repo.read(second["commit"], "whole.txt") == "whole"
    assert stored(corral, "SELECT epoch FROM runs") == [(2,)]
    assert stored(corral, "SELECT count(*) FROM slots") == [(0,)]
    assert stored(corral, "SELECT count(*) FROM ledger WHERE settled IS NULL") == [(0,)]
    assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
    assert corral.leavings() == []


def test_stop_takes_a_stuck_run_after_its_lease_and_says_what_it_waits_for(corral: Corral, repo: Repo) -> None:
    with stuck(corral, repo) as (going, run), corral.going("stop", run, "--json") as stopping:
        assert stopping.process.stderr
        line = stopping.process.stderr.readline().decode()
        assert f"process {going.process.pid}" in line
        assert "--force" in line
        assert tagged_processes(f"CORRAL_ATTEMPT={run}")
        let_lease_run_out(corral)
        outcome = stopping.end()
        assert (outcome.code, outcome.json["status"]) == (0, "stopped"), outcome
        assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
        wakes_up_and_leaves(corral, going)
    attempt = outcome.attempt
    assert repo.read(attempt["branch"], "rest.txt") == "rest"
    assert repo.refs(f"refs/corral/snapshots/{attempt['id']}")
    assert attempt["cost"]["usd"] == 0.01
    assert stored(corral, "SELECT count(*) FROM slots") == [(0,)]


def test_stop_with_force_does_not_wait_for_the_lease(corral: Corral, repo: Repo) -> None:
    with stuck(corral, repo) as (going, run):
        outcome = corral("stop", run, "--force", "--json")
        assert (outcome.code, outcome.json["status"]) == (0, "stopped"), outcome
        wakes_up_and_leaves(corral, going)


def test_the_lease_of_a_process_that_hangs_runs_out_by_itself(corral: Corral, repo: Repo) -> None:
    with stuck(corral, repo) as (going, run):
        outcome = corral("halt")
        assert outcome.code == 0, outcome
        assert "1 run stopped" in outcome.out
        assert corral("show", run, "--json").json["status"] == "stopped"
        wakes_up_and_leaves(corral, going)


def test_an_ordinary_user_takes_a_stuck_run_over(person: Person) -> None:
    with stuck(person, person.repo()) as (going, run):
        outcome = person("stop", run, "--force", "--json")
        assert (outcome.code, outcome.json["status"]) == (0, "stopped"), outcome
        assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
        wakes_up_and_leaves(person, going)


def test_a_server_takes_over_the_run_of_a_process_that_hangs(corral: Corral, repo: Repo) -> None:
    with stuck(corral, repo) as (going, run), serving(corral, corral.root):
        let_lease_run_out(corral)
        until(lambda: corral("show", run, "--json").json["status"] == "done", "the server ends the run")
        assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
        wakes_up_and_leaves(corral, going)


WRITES_MUCH = """
[[step]]
run = "head -c 60000000 /dev/urandom > much; echo 1 > small"
"""


def test_work_that_a_stopped_process_was_collecting_is_collected_by_the_next(corral: Corral, repo: Repo) -> None:
    """It holds the lock of the repository: it is ended when it loses its run, and nothing is left to `restore`."""
    agent = corral.script(WRITES_MUCH)
    corral("ls")
    with corral.going("run", "a task", "--repo", repo.folder, "--agent", agent, "--json") as going:

        def brings_objects(lock: Path) -> bool:
            holds = process_identity.lock_holder(lock) == going.process.pid
            return holds and any(repo.folder.glob(".git/objects/corral-*"))

        def collects() -> bool:
            for lock in filter(brings_objects, corral.home.glob("locks/*")):
                going.signal(signal.SIGSTOP)
                until(lambda: process_identity.is_suspended(going.process.pid), "it is suspended")
                if brings_objects(lock):
                    return True
                going.signal(signal.SIGCONT)
            return False

        until(collects, "it collects")
        run = corral("ls", "--json").json[0]["run"]
        outcome = corral("stop", run, "--force", "--json")
        assert outcome.json["status"] == "stopped", outcome
        assert "small" in outcome.attempt["files_changed"]
        assert repo.read(outcome.attempt["branch"], "small") == "1"
        until(lambda: going.process.poll() is not None, "it was ended")


def test_halt_names_what_it_could_not_stop(corral: Corral, repo: Repo) -> None:
    """Here a hook keeps the run from its end for longer than `halt` waits."""
    corral.config("[[hooks]]\non = \"after_failure\"\nrun = 'sleep 600.47'\n")
    agent = corral.script(SLEEPS)
    with corral.going("run", "a task", "--repo", repo.folder, "--agent", agent, "--json") as going:
        corral.until_said("half done")
        run = corral("ls", "--json").json[0]["run"]
        outcome = corral("halt")
        assert outcome.code == 1, outcome
        assert "0 runs stopped" in outcome.out
        assert f"not stopped: {run}: process {going.process.pid}" in outcome.out + outcome.err
        assert f"to force it: corral stop {run} --force" in outcome.out + outcome.err
        assert corral("show", run, "--json").json["status"] == "running"
        forced = corral("stop", run, "--force", "--json")
        assert forced.json["status"] == "stopped", forced


#: An agent's file of another package, whose reader never returns: the process that drives the run hangs in it.
HANGS = """
import time
from pathlib import Path
from corral.model.agent_api import AgentFacts, Command
class Hangs:
    facts = AgentFacts(name="hangs", family="hangs", programs=("sh",), version=())
    def __init__(self, profile): pass
    def start(self, task):
        first = "echo half > half.txt; test -e {hung} || {{ echo hang; sleep 600.53; }}"
        return Command(argv=("sh", "-c", first + "; echo rest > rest.txt; echo done"))
    def converse(self, task): return self
    def read(self, line):
        if line == "hang":
            Path("{hung}").touch()
            time.sleep(600.53)
        return []
    def exited(self, end):
        from corral.model.events import Ended
        return [Ended(ok=True, text="done")]
"""


@pytest.fixture
def hanging(corral: Corral) -> str:
    """Install that agent as a package; it hangs once."""
    packages = corral.root / "packages"
    info = packages / "corral_hangs-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: corral-hangs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[corral.agents]\nhangs = corral_hangs:Hangs\n")
    (packages / "corral_hangs.py").write_text(HANGS.format(hung=corral.root / "seen" / "hung"))
    corral.env["PYTHONPATH"] = str(packages)
    (corral.root / "seen").mkdir()
    corral.config(f'[scope]\nread = ["{corral.root / "seen"}"]\n')
    return "hangs"


@pytest.mark.parametrize("how", ["resume", "stop", "halt"])
def test_a_process_that_hangs_without_being_stopped_loses_its_run(
    corral: Corral, repo: Repo, hanging: str, how: str
) -> None:
    """It is not suspended: it is at work in code that never returns, and deaf to every order."""
    with corral.going("run", "a task", "--repo", repo.folder, "--agent", hanging, "--json") as going:
        until(lambda: (corral.root / "seen" / "hung").exists() or going.process.poll() is not None, "it hangs")
        run = corral("ls", "--json").json[0]["run"]
        assert not process_identity.is_suspended(going.process.pid)
        if how == "resume":
            assert corral("resume", run).code == 2  # its lease is not out
            let_lease_run_out(corral)
            outcome = corral("resume", run, "--json")
            assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
            assert repo.read(outcome.json["nodes"][0]["attempts"][-1]["commit"], "rest.txt") == "rest"
        else:
            outcome = corral("stop", run, "--json") if how == "stop" else corral("halt")
            assert outcome.code == 0, outcome
        shown = corral("show", run, "--json").json
        assert shown["status"] == ("done" if how == "resume" else "stopped")
        first = shown["nodes"][0]["attempts"][0]
        assert repo.read(first["branch"], "half.txt") == "half"
        assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
    assert stored(corral, "SELECT count(*) FROM ledger WHERE settled IS NULL") == [(0,)]
