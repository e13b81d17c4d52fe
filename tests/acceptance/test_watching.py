"""From a second terminal: watch a run that another process drives, and stop it."""

import json
import signal

import pytest

from tests.rig.command import Corral
from tests.rig.processes import gone, running
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

#: Says that it is ready, has children that ignore polite requests, and never ends.
HANGS = """
echo half > half.txt
echo ready
sh -c 'trap "" TERM INT HUP; while :; do sleep {sign}; done' &
setsid sleep {sign} &
while :; do sleep {sign}; done
"""


@pytest.fixture
def sign(corral: Corral) -> str:
    """A number by which the sleeping processes of this test, and of no other, are known."""
    return f"31536000.{abs(hash(str(corral.root)))}"


@pytest.fixture
def repo(corral: Corral, sign: str) -> Repo:
    corral.agent("slow", HANGS.format(sign=sign))
    return corral.repo()


def saved(corral: Corral, repo: Repo, status: str) -> None:
    """Assert that a run ended with this status and kept the work it had."""
    run = corral("show", "@last", "--json").json
    attempt = run["nodes"][0]["attempts"][-1]
    assert (run["status"], attempt["status"]) == (status, status)
    assert repo.read(attempt["commit"], "half.txt") == "half"
    assert attempt["branch"] in repo.git("branch", "--list", "--format=%(refname:short)", "corral/*")
    assert corral.leavings() == []
    assert "ok" in corral("doctor").out


def test_logs_follow_a_run_and_end_with_it(corral: Corral) -> None:
    agent = corral.script(
        '[[step]]\nsay = "ready"\n[[step]]\nrun = "until test -e go; do sleep 0.02; done"\n[[step]]\nsay = "gone on"\n'
    )
    repo = corral.repo()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent, "--json") as run:
        corral.until_said("ready")
        with corral.going("logs", "-f", "@last", "--json") as logs:
            assert logs.process.stdout
            seen = [json.loads(logs.process.stdout.readline())]
            while seen[-1].get("text") != "ready":
                seen.append(json.loads(logs.process.stdout.readline()))
            assert logs.process.poll() is None
            assert run.process.poll() is None
            next(corral.home.glob("workspaces/*/work")).joinpath("go").touch()
            rest = logs.end()
        assert run.end().code == 0
    assert rest.code == 0
    assert any(event.get("text") == "gone on" for event in rest.json_lines)
    assert (rest.json_lines[-1]["type"], rest.json_lines[-1]["status"]) == ("status_changed", "done")
    assert seen + rest.json_lines == corral.events()


def test_a_run_is_seen_while_it_goes_on(corral: Corral, repo: Repo) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "slow") as run:
        corral.until_said("ready")
        assert corral("ls", "--json").json[0]["status"] == "running"
        shown = corral("show", "@last", "--json").json
        assert shown["nodes"][0]["attempts"][0]["status"] == "running"
        assert "corral stop" in corral("show", "@last").out
        refused = corral("resume", "@last")
        assert refused.code == 2
        assert "another process" in refused.err
        assert corral("stop", "@last").code == 0
        assert run.end().code == 130


def test_stop_from_another_process(corral: Corral, repo: Repo, sign: str) -> None:
    before = repo.fingerprint()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "slow", "--json") as run:
        corral.until_said("ready")
        assert running(sign)
        stopped = corral("stop", "@last", "--json")
        ended = run.end()
    assert stopped.code == 0, stopped
    assert ended.code == 130, ended
    assert stopped.json["status"] == ended.json["status"] == "stopped"
    assert "stopped by" in ended.json["reason"]
    gone(sign)
    saved(corral, repo, "stopped")
    assert repo.fingerprint() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_agent_and_saves_its_work(
    corral: Corral, repo: Repo, sign: str, number: signal.Signals
) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "slow", "--json") as run:
        corral.until_said("ready")
        run.signal(number)
        ended = run.end()
    assert ended.code == 130, ended
    assert number.name in ended.json["reason"]
    gone(sign)
    saved(corral, repo, "stopped")


def test_an_impatient_person_presses_twice(corral: Corral, repo: Repo, sign: str) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "slow", "--json") as run:
        corral.until_said("ready")
        for _ in range(3):
            run.signal(signal.SIGINT)
        assert run.end().code == 130
    gone(sign)
    saved(corral, repo, "stopped")


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "words"), [("--timeout", "not done within"), ("--idle", "said nothing")])
def test_a_limit_ends_the_whole_tree_and_saves_the_work(
    corral: Corral, repo: Repo, sign: str, limit: str, words: str
) -> None:
    outcome = corral.run(repo, "t", "--agent", "slow", limit, "5s", "--retries", "0")
    assert outcome.code == 1, outcome
    assert outcome.attempt["error"]["message"].startswith(f"it was {words}" if words[:3] == "not" else f"it {words}")
    assert limit in outcome.attempt["error"]["hint"]
    gone(sign)
    saved(corral, repo, "timed_out")


def test_an_agent_that_ends_leaves_nobody_behind(corral: Corral, sign: str) -> None:
    corral.agent(
        "careless", f"echo x > x; (setsid sleep {sign} &) ; sleep {sign} & nohup sleep {sign} >/dev/null 2>&1 &"
    )
    outcome = corral.run(corral.repo(), "t", "--agent", "careless")
    assert outcome.code == 0, outcome
    assert running(sign) == []


def test_a_killed_corral_takes_its_agent_with_it(corral: Corral, repo: Repo, sign: str) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "slow") as run:
        corral.until_said("ready")
        run.signal(signal.SIGKILL)
        run.end()
    gone(sign)
    assert corral("ls", "--json").json[0]["status"] == "running"
    stopped = corral("stop", "@last", "--json")
    assert (stopped.code, stopped.json["status"]) == (0, "stopped")
    attempt = stopped.json["nodes"][0]["attempts"][0]
    assert repo.read(attempt["commit"], "half.txt") == "half"
    assert corral.leavings() == []


def test_resume_goes_on_after_a_kill(corral: Corral) -> None:
    script = (
        '[[step]]\nrun = "echo step >> steps"\n[[step]]\nsay = "ready"\n[[step]]\nrun = "test -e go || sleep 999"\n'
    )
    agent = corral.script(script)
    repo = corral.repo()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent, "--check", "test -f steps") as run:
        corral.until_said("ready")
        next(corral.home.glob("workspaces/*/work")).joinpath("go").touch()
        run.signal(signal.SIGKILL)
        run.end()
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed
    first, second = resumed.json["nodes"][0]["attempts"]
    assert (first["status"], second["status"]) == ("stopped", "done")
    assert second["session"] == first["session"]
    assert repo.read(second["commit"], "steps") == "step\nstep"
    assert corral.leavings() == []


def test_stop_while_a_check_runs(corral: Corral, sign: str) -> None:
    corral.agent("mine", "echo half > half.txt")
    repo = corral.repo()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "mine", "--check", f"sleep {sign}") as run:
        until(lambda: running(sign), "the check runs")
        assert corral("stop", "@last").code == 0
        assert run.end().code == 130
    gone(sign)
    saved(corral, repo, "stopped")


def test_stop_while_waiting_for_the_next_try(corral: Corral) -> None:
    corral.config("[retry]\ndelay_seconds = 3000.0")
    agent = corral.script('[[step]]\nwrite = "x"\n[[step]]\nfail = "overloaded"\n')
    with corral.going("run", "t", "--repo", corral.repo().folder, "--agent", agent) as run:
        until(lambda: any(event["type"] == "noted" for event in corral.events()), "it waits")
        assert corral("stop", "@last").code == 0
        assert run.end().code == 130


def test_stop_while_the_setup_runs(corral: Corral, sign: str) -> None:
    corral.config(f'[workspace]\nsetup = "sleep {sign}"')
    corral.agent("mine", "echo x > x")
    with corral.going("run", "t", "--repo", corral.repo().folder, "--agent", "mine", "--json") as run:
        until(lambda: running(sign), "the setup runs")
        assert corral("stop", "@last").code == 0
        ended = run.end()
    assert ended.code == 130, ended
    gone(sign)
    assert corral.leavings() == []
