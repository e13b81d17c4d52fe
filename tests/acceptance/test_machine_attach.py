"""Engines, hosts and machines that die or hang while an agent works elsewhere."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.machines import add_machine, end_hosts, far_home, host_pids
from tests.rig.waiting import until


def waiting_agent(corral: Corral, name: str = "waiter") -> tuple[str, Path]:
    """Let there be an agent that says its process id, waits for a file, and then ends; return where the file goes."""
    script = "echo pid $$; echo one; touch begun; while [ ! -e go ]; do sleep 0.05; done; echo two; echo x > made.txt"
    return corral.agent(name, script), far_home(corral) / "host" / "workspaces"


def said(corral: Corral) -> list[str]:
    return [event["text"] for event in corral.events("@last") if event["type"] == "said"]


def workspace(folder: Path) -> Path:
    until(lambda: list(folder.glob("*/work/begun")), "the agent has begun")
    return next(folder.glob("*/work/begun")).parent


def test_after_the_death_of_the_engine_the_same_process_goes_on_and_no_event_comes_twice(corral: Corral) -> None:
    add_machine(corral)
    agent, folder = waiting_agent(corral)
    repo = corral.repo()
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1") as engine:
        place = workspace(folder)
        corral.until_said("one")
        engine.process.kill()
        engine.process.wait()
    before = host_pids(corral)
    assert before, "the host lives on"
    (place / "go").touch()
    outcome = corral("resume", "@last", "--json")
    assert outcome.json["status"] == "done", outcome
    attempts = outcome.json["nodes"][0]["attempts"]
    assert len(attempts) == 1  # it is no further try
    assert repo.read(attempts[0]["commit"], "made.txt") == "x"
    words = " ".join(said(corral)).split()
    assert [words.count(word) for word in ("pid", "one", "two")] == [1, 1, 1]
    started = [
        event
        for event in corral.events("@last")
        if event["type"] == "noted" and "another process continues it" in event["text"]
    ]
    assert len(started) == 1


def test_an_attempt_whose_engine_is_gone_ends_by_its_lease(corral: Corral) -> None:
    add_machine(corral, settings='lease = "1s"')
    agent, folder = waiting_agent(corral)
    repo = corral.repo()
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1") as engine:
        place = workspace(folder)
        corral.until_said("one")
        engine.process.kill()
        engine.process.wait()
    until(lambda: not host_pids(corral), "the host ends its attempt and leaves")
    assert place.exists()  # its work is kept
    (corral.config_file.parent / f"{agent}.sh").write_text("#!/bin/sh\necho x > made.txt\n")
    outcome = corral("resume", "@last", "--json")
    attempts = outcome.json["nodes"][0]["attempts"]
    assert outcome.json["status"] == "done", outcome
    assert attempts[0]["status"] == "stopped"
    assert attempts[0]["files_changed"] == ["begun"]
    assert attempts[-1]["status"] == "done"


def test_a_workspace_that_is_gone_there_is_said_plainly(corral: Corral) -> None:
    add_machine(corral)
    agent = corral.agent("waiter", "echo one; touch begun; while [ -e begun ]; do sleep 0.05; done; echo two")
    folder, repo = far_home(corral) / "host" / "workspaces", corral.repo()
    words = ("--machine", "box1", "--retries", "0")
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, *words) as engine:
        place = workspace(folder)
        corral.until_said("one")
        engine.process.kill()
        engine.process.wait()
    shutil.rmtree(place.parent)
    outcome = corral("resume", "@last", "--json")
    assert outcome.json["status"] == "failed", outcome
    error = outcome.attempt["error"]
    assert error["message"] == "the machine `box1` does not have its workspace any more"
    assert f"corral restore {outcome.attempt['id']} --list" in error["hint"]


def test_a_host_that_is_killed_loses_its_attempt_and_another_try_follows(corral: Corral) -> None:
    add_machine(corral)
    agent, folder = waiting_agent(corral)
    repo = corral.repo()
    corral.config("[retry]\ndelay_seconds = 0.1\n")
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1", "--json") as engine:
        first = workspace(folder)
        corral.until_said("one")
        assert end_hosts(corral)
        until(lambda: len(list(folder.glob("*/work/begun"))) > (1 if first.exists() else 0), "the next try has begun")
        for place in folder.glob("*/work"):
            (place / "go").touch()
        outcome = engine.end()
    assert outcome.json["status"] == "done", outcome
    attempts = outcome.json["nodes"][0]["attempts"]
    assert [each["status"] for each in attempts] == ["failed", "done"]
    assert attempts[0]["error"]["class"] == "crash"
    assert "lost it" in attempts[0]["error"]["message"]


@pytest.mark.night("a lease must run out")
def test_a_host_that_hangs_is_given_up_and_its_late_result_is_refused(corral: Corral) -> None:
    add_machine(corral, settings='lease = "2s"')
    agent, folder = waiting_agent(corral)
    repo = corral.repo()
    with corral.going(
        "run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1", "--retries", "0", "--json"
    ) as engine:
        place = workspace(folder)
        corral.until_said("one")
        stopped = end_hosts(corral, number=signal.SIGSTOP)
        (place / "go").touch()
        try:
            outcome = engine.end()
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    assert outcome.json["status"] == "failed", outcome
    attempt = outcome.attempt
    assert "lost it" in attempt["error"]["message"]
    assert attempt["commit"] is None
    until(lambda: not host_pids(corral), "the host that went on leaves")
    assert corral("show", "@last", "--json").json["nodes"][0]["attempts"] == [attempt]


def test_what_nobody_asked_for_in_a_week_is_removed_there(corral: Corral) -> None:
    add_machine(corral)
    agent, folder = waiting_agent(corral)
    repo = corral.repo()
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1") as engine:
        place = workspace(folder)
        corral.until_said("one")
        engine.process.kill()
        engine.process.wait()
    end_hosts(corral)
    until(lambda: not host_pids(corral), "the machine was restarted")
    state, name = far_home(corral) / "host", place.parent.name
    left = [state / each / name for each in ("workspaces", "spool", "logs") if (state / each / name).exists()]
    assert len(left) >= 2
    young = state / "workspaces" / "young"
    young.mkdir()
    corral("machines", "check", "box1")
    assert all(each.exists() for each in left)  # its engine may come back
    week_ago = time.time() - 8 * 86_400
    for each in left:
        for path in (*each.iterdir(), each):
            os.utime(path, (week_ago, week_ago), follow_symlinks=False)

    def are_removed() -> bool:
        corral("machines", "check", "box1")  # a host that is needed for a moment only leaves the rest to the next
        return not any(each.exists() for each in left)

    until(are_removed, "they are removed")
    assert young.exists()
