"""Limits on how many are at work at once: between processes, between runs of one, and after a process was killed."""

import signal

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, statuses, write
from tests.rig.processes import running
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]

FOUR = """
name: four
nodes:
  a: {task: "DO: sleep 0.31; echo a > a.txt"}
  b: {task: "DO: sleep 0.31; echo b > b.txt"}
  c: {task: "DO: sleep 0.31; echo c > c.txt"}
"""


def second_engine(corral: Corral) -> Corral:
    """Return an engine of the same store: on another machine where machines can share it."""
    return corral.on_another_machine() if "CORRAL_STORE" in corral.env else corral


def most_at_once(corral: Corral) -> int:
    """Return how many attempts were at work at the busiest moment."""
    spans = corral.stored("SELECT started, ended FROM attempts")
    return max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)


@pytest.mark.parametrize("limits", ["parallel = 1", "per_repository = 1", "per_agent = {doer = 1}"])
def test_two_processes_never_have_more_at_work_than_allowed(corral: Corral, limits: str) -> None:
    doer(corral)
    corral.config(f"[limits]\n{limits}")
    repo, file = corral.repo(), write(corral, FOUR)
    command = ("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json")
    with corral.going(*command) as first, second_engine(corral).going(*command) as second:
        outcomes = [first.end(), second.end()]
    assert [set(statuses(each).values()) for each in outcomes] == [{"done"}, {"done"}], outcomes
    assert most_at_once(corral) == 1
    assert corral.stored("SELECT * FROM slots") == corral.stored("SELECT * FROM slot_wants") == []


def test_runs_take_turns(corral: Corral) -> None:
    doer(corral)
    corral.config("[limits]\nparallel = 1")
    repo, file = corral.repo(), write(corral, FOUR)
    command = ("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json")
    with corral.going("run", "DO: sleep 63.79", "--repo", repo.folder, "--agent", "doer") as holder:
        until(lambda: running("63.79"), "it is at work")
        with corral.going(*command) as first, second_engine(corral).going(*command) as second:
            until(lambda: len(corral.stored("SELECT * FROM slot_wants")) == 2, "both wait")
            corral("stop", corral.stored("SELECT run FROM slots")[0][0])
            outcomes = [first.end(), second.end()]
        holder.end()
    assert [set(statuses(each).values()) for each in outcomes] == [{"done"}, {"done"}], outcomes
    _, *order = [run for (run,) in corral.stored("SELECT run FROM attempts ORDER BY started")]
    assert order == [order[0], order[1]] * 3
    assert order[0] != order[1]
    waits = [event for event in corral.events(order[1]) if "[limits]" in str(event)]
    assert waits, "whoever waits is told so"


def test_without_a_limit_they_work_side_by_side(corral: Corral) -> None:
    doer(corral)
    outcome = corral(
        "flow",
        "run",
        write(corral, FOUR.replace("0.31", "2")),
        "--repo",
        corral.repo().folder,
        "--agent",
        "doer",
        "--json",
    )
    assert set(statuses(outcome).values()) == {"done"}
    assert most_at_once(corral) == 3


def test_the_slot_of_a_killed_process_is_free_again(corral: Corral) -> None:
    doer(corral)
    corral.config("[limits]\nparallel = 1")
    repo = corral.repo()
    with corral.going("run", "DO: sleep 61.77", "--repo", repo.folder, "--agent", "doer") as first:
        until(lambda: running("61.77"), "the first is at work")
        with corral.going("run", "DO: echo b > b.txt", "--repo", repo.folder, "--agent", "doer", "--json") as second:
            until(lambda: corral.stored("SELECT * FROM slot_wants"), "the second waits")
            assert len(corral.stored("SELECT * FROM slots")) == 1
            first.process.kill()
            assert second.end().json["status"] == "done"
    assert corral.stored("SELECT * FROM slots") == []


def test_the_urgent_run_goes_first(corral: Corral) -> None:
    doer(corral)
    corral.config("[limits]\nparallel = 1")
    repo = corral.repo()

    def run(word: str, *more: str) -> tuple[str, ...]:
        return (
            "run",
            f"DO: sleep 0.{word}; echo {word} > {word}.txt",
            "--repo",
            str(repo.folder),
            "--agent",
            "doer",
            "--json",
            *more,
        )

    with corral.going("run", "DO: sleep 62.78", "--repo", repo.folder, "--agent", "doer") as holder:
        until(lambda: running("62.78"), "it is at work")
        with corral.going(*run("11")) as usual:
            until(lambda: len(corral.stored("SELECT * FROM slot_wants")) == 1, "1 wait")
            with second_engine(corral).going(*run("22", "--priority", "5")) as urgent:
                until(lambda: len(corral.stored("SELECT * FROM slot_wants")) == 2, "2 wait")
                assert corral("stop", corral.stored("SELECT run FROM slots")[0][0]).code in (0, 130)
                ends = [each.end().json["nodes"][0]["attempts"][0]["id"] for each in (usual, urgent)]
        holder.end()
    started = dict(corral.stored("SELECT id, started FROM attempts"))
    assert started[ends[1]] < started[ends[0]]


def test_a_repository_may_only_narrow_and_numbers_are_checked(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo(files={"corral.toml": "[limits]\nparallel = 0\n", "README.md": "x"})
    outcome = corral.run(repo, "DO: true", "--agent", "doer")
    assert outcome.code == 2
    assert "corral.toml:2: [limits] parallel is 1 or more" in outcome.err
    corral.config("[limits]\nparallel = 1")
    (repo.folder / "corral.toml").write_text("[limits]\nparallel = 9\n")
    command = ("flow", "run", write(corral, FOUR), "--repo", repo.folder, "--agent", "doer", "--json")
    assert set(statuses(corral(*command)).values()) == {"done"}
    assert most_at_once(corral) == 1


def test_limits_that_are_changed_hold_for_runs_that_wait(corral: Corral) -> None:
    doer(corral)
    corral.config("[limits]\nparallel = 1")
    repo = corral.repo()
    with corral.going("run", "DO: sleep 63.81", "--repo", repo.folder, "--agent", "doer") as holder:
        until(lambda: running("63.81"), "it is at work")
        with corral.going("run", "DO: echo x > x.txt", "--repo", repo.folder, "--agent", "doer", "--json") as other:
            until(lambda: corral.stored("SELECT * FROM slot_wants"), "it waits")
            text = corral.config_file.read_text()
            corral.config_file.write_text(text.replace("parallel = 1", "parallel = 2"))
            assert other.end().json["status"] == "done"
        assert running("63.81")
        holder.signal(signal.SIGINT)
        holder.end()
