"""Hooks of the person run outside the box at their moments; one before the start can say no."""

import json

import pytest

from tests.rig.command import Corral

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def worker(corral: Corral) -> Corral:
    corral.agent("worker", "echo work > work.txt")
    corral.agent("broken", "exit 3")
    return corral


def test_all_moments_are_told_in_order(worker: Corral) -> None:
    log = worker.root / "hooks.log"
    for moment in ("before_start", "before_prompt", "after_done", "after_failure"):
        worker.config(f"[[hooks]]\non = \"{moment}\"\nrun = 'cat >> {log}'\n")
    worker.run(worker.repo(), "do it", "--agent", "worker", "--type", "bugfix")
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["hook"] for each in told] == ["before_start", "before_prompt", "after_done"]
    assert told[1]["prompt"] == "do it"
    assert told[2]["status"] == "done"
    assert told[2]["branch"].startswith("corral/")
    log.unlink()
    worker.run(worker.root / "repo", "do it", "--agent", "broken", "--retries", "0")
    assert [json.loads(line)["hook"] for line in log.read_text().splitlines()][-1] == "after_failure"


@pytest.mark.parametrize("moment", ["before_start", "before_prompt"])
def test_a_failing_one_before_blocks_with_its_words(worker: Corral, moment: str) -> None:
    worker.config(f"[[hooks]]\non = \"{moment}\"\nrun = 'echo not today >&2; exit 1'\n")
    outcome = worker.run(worker.repo(), "do it", "--agent", "worker")
    assert outcome.code == 1
    assert outcome.attempt["error"]["class"] == "denied"
    assert "not today" in outcome.attempt["error"]["message"]
    assert outcome.attempt["commit"] is None
    assert len(outcome.json["nodes"][0]["attempts"]) == 1


def test_a_failing_one_after_is_told_and_changes_nothing(worker: Corral) -> None:
    worker.config("[[hooks]]\non = \"after_done\"\nrun = 'exit 1'\n")
    outcome = worker.run(worker.repo(), "do it", "--agent", "worker")
    assert outcome.code == 0
    assert any("says no" in event.get("text", "") for event in worker.events())


@pytest.mark.parametrize(
    ("filter_", "blocked"), [('agent = "work*"', True), ('agent = "other"', False), ('type = "test"', False)]
)
def test_they_are_filtered(worker: Corral, filter_: str, blocked: bool) -> None:
    worker.config(f'[[hooks]]\non = "before_start"\nrun = "false"\n{filter_}\n')
    assert (worker.run(worker.repo(), "do it", "--agent", "worker").code == 1) is blocked


def test_a_function_of_the_persons_may_be_one(worker: Corral) -> None:
    (worker.root / "mine.py").write_text("def no(about):\n    raise ValueError('no ' + about['agent'])\n")
    worker.config('[[hooks]]\non = "before_start"\npython = "mine:no"\n')
    worker.env["PYTHONPATH"] = str(worker.root)
    outcome = worker.run(worker.repo(), "do it", "--agent", "worker")
    assert "no worker" in outcome.attempt["error"]["message"]


def test_a_repositorys_hooks_need_trust(worker: Corral) -> None:
    repo = worker.repo()
    mark = worker.root / "ran"
    repo.write({"corral.toml": f"[[hooks]]\non = \"before_start\"\nrun = 'touch {mark}'\n"})
    assert worker.run(repo, "do it", "--agent", "worker").code == 2
    assert not mark.exists()
    assert worker.run(repo, "do it", "--agent", "worker", "--trust").code == 0
    assert mark.exists()


@pytest.mark.parametrize(
    "text", ["[hooks]\non = 1\n", '[[hooks]]\non = "never"\nrun = "x"\n', '[[hooks]]\non = "after_done"\n']
)
def test_a_bad_one_is_refused(worker: Corral, text: str) -> None:
    worker.config(text)
    outcome = worker.run(worker.repo(), "do it", "--agent", "worker")
    assert outcome.code == 2
    assert "hook" in outcome.err
