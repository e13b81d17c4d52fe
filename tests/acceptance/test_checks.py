"""Checks are the engine's: they judge what was delivered, with the tests the task began with."""

from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome

CHECK = "python3 tests/test_sum.py"
FILES = {
    "sums.py": "def add(a, b):\n    return a - b\n",
    "tests/test_sum.py": "import sys\nsys.path.insert(0, '.')\nfrom sums import add\nassert add(1, 2) == 3\n",
}
MEND = "printf 'def add(a, b):\\n    return a + b\\n' > sums.py\n"
WEAKEN = "echo 'print(1)' > tests/test_sum.py\n"


def judged(corral: Corral, script: str, *arguments: str, task: str = "make the tests pass") -> Outcome:
    corral.agent("mine", script)
    return corral.run(corral.repo(files=FILES), task, "--agent", "mine", "--check", CHECK, "--retries", "0", *arguments)


def test_honest_work_passes(corral: Corral) -> None:
    outcome = judged(corral, MEND)
    assert outcome.code == 0, outcome


def test_a_weakened_test_proves_nothing(corral: Corral) -> None:
    outcome = judged(corral, WEAKEN)
    assert (outcome.code, outcome.json["status"]) == (1, "failed")
    error = outcome.attempt["error"]
    assert error["class"] == "check_failed"
    assert "changed" in error["message"]
    assert "tests/test_sum.py" in error["message"]
    assert outcome.json["merge"]["status"] == "none"


def test_a_test_that_was_changed_beside_good_work_does_no_harm(corral: Corral) -> None:
    assert judged(corral, MEND + WEAKEN).code == 0


def test_a_deleted_test_proves_nothing(corral: Corral) -> None:
    corral.agent("mine", "rm tests/test_sum.py; echo x > x")
    check = "for file in tests/*.py; do [ ! -e $file ] || python3 $file || exit 1; done"
    outcome = corral.run(corral.repo(files=FILES), "mend", "--agent", "mine", "--check", check, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert "tests/test_sum.py" in outcome.attempt["error"]["message"]


def test_a_renamed_test_proves_nothing(corral: Corral) -> None:
    corral.agent("mine", "mv tests old; echo x > x")
    check = "for file in tests/*.py; do [ ! -e $file ] || python3 $file || exit 1; done"
    outcome = corral.run(corral.repo(files=FILES), "mend", "--agent", "mine", "--check", check, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "check_failed"


def test_a_test_turned_into_a_link_proves_nothing(corral: Corral) -> None:
    outcome = judged(corral, "echo 'print(1)' > easy.py; ln -sf ../easy.py tests/test_sum.py")
    assert outcome.attempt["error"]["class"] == "check_failed"


def test_a_folder_of_tests_replaced_by_a_file_proves_nothing(corral: Corral) -> None:
    corral.agent("mine", "rm -r tests; echo x > tests")
    check = "for file in tests/*.py; do [ ! -e $file ] || python3 $file || exit 1; done"
    outcome = corral.run(corral.repo(files=FILES), "mend", "--agent", "mine", "--check", check, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "check_failed"


def test_a_script_that_the_check_names_is_the_bases(corral: Corral) -> None:
    files = {"verify.sh": "grep -q good a.txt\n", "a.txt": "bad\n"}
    corral.agent("mine", "echo true > verify.sh")
    outcome = corral.run(
        corral.repo(files=files), "mend", "--agent", "mine", "--check", "sh ./verify.sh", "--retries", "0"
    )
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert "verify.sh" in outcome.attempt["error"]["message"]


def test_a_task_about_tests_may_change_them(corral: Corral) -> None:
    assert judged(corral, WEAKEN, "--type", "test").code == 0
    other = corral.run(Path(corral.root / "repo"), "t", "--agent", "mine", "--check", CHECK, "--type", "bugfix")
    assert other.code == 1


@pytest.mark.parametrize("task", ["rewrite tests/test_sum.py", "test_sum.py is wrong: mend it"])
def test_a_task_that_names_a_test_may_change_it(corral: Corral, task: str) -> None:
    assert judged(corral, WEAKEN, task=task).code == 0


def test_a_task_given_the_test_as_its_file_may_change_it(corral: Corral) -> None:
    assert judged(corral, WEAKEN, "--file", "tests/test_sum.py").code == 0


def test_new_tests_are_welcome(corral: Corral) -> None:
    outcome = judged(corral, MEND + "echo 'assert True' > tests/test_more.py")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["sums.py", "tests/test_more.py"]


def test_a_check_sees_only_what_was_delivered(corral: Corral) -> None:
    repo = corral.repo(files={".gitignore": "build/\n", "a.txt": "1\n"})
    corral.agent("mine", "mkdir build; echo x > build/x; echo x > $HOME/x; echo y > y")
    outcome = corral.run(
        repo, "t", "--agent", "mine", "--check", "test ! -e build && test ! -e $HOME/x", "--retries", "0"
    )
    assert outcome.code == 0, outcome


def test_what_a_check_writes_is_not_part_of_the_work(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", "echo spoilt > x; echo y > y", "--check", "cat y")
    assert outcome.code == 0, outcome
    assert repo.files(outcome.attempt["commit"]) == ["a.txt", "src/b.txt", "x"]
    assert repo.read(outcome.attempt["commit"], "x") == "x"


def test_a_check_may_be_a_program_that_the_agent_makes(corral: Corral) -> None:
    corral.agent("mine", "printf '#!/bin/sh\\nexit 0\\n' > verify; chmod +x verify")
    assert corral.run(corral.repo(), "t", "--agent", "mine", "--check", "./verify").code == 0


def test_a_check_that_leaves_a_process_behind_ends_all_the_same(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--check", "sleep 86399 & exit 0")
    assert outcome.code == 0, outcome


def test_a_read_only_task_is_checked_at_its_base(corral: Corral) -> None:
    corral.agent("mine", "echo fine")
    repo = corral.repo()
    good = corral.run(repo, "t", "--agent", "mine", "--read-only", "--check", "grep one a.txt")
    assert (good.code, len(good.attempt["checks"])) == (0, 1)
    bad = corral.run(repo, "t", "--agent", "mine", "--read-only", "--check", "grep two a.txt", "--retries", "0")
    assert bad.attempt["error"]["class"] == "check_failed"
