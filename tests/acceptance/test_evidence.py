"""Checks as evidence: tests are counted, old failures told from new ones, chance from failure; nothing runs twice."""

from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral, Outcome

CHECK = "python3 -m unittest discover -s tests"
TESTS = """import sys, unittest
sys.path.insert(0, ".")
from sums import add, double
class Sums(unittest.TestCase):
    def test_add(self): self.assertEqual(add(1, 2), 3)
    def test_double(self): self.assertEqual(double(2), 4)
    @unittest.skip("later")
    def test_later(self): pass
"""
GOOD = "def add(a, b):\n    return a + b\ndef double(a):\n    return 2 * a\n"
FILES = {"sums.py": GOOD.replace("2 * a", "a"), "tests/test_sums.py": TESTS}  # test_double fails at the base


def write(file: str, text: str) -> str:
    return f"cat > {file} <<'END'\n{text}END\n"


def judged(corral: Corral, script: str, *arguments: str, files: dict[str, str] | None = None) -> Outcome:
    corral.agent("mine", script)
    repo = corral.repo(files=files or FILES)
    return corral.run(repo, "mend it", "--agent", "mine", "--check", CHECK, "--retries", "0", *arguments)


def only_check(outcome: Outcome) -> dict[str, Any]:
    return outcome.attempt["checks"][0]


def test_tests_are_counted_before_and_after(corral: Corral) -> None:
    outcome = judged(corral, write("sums.py", GOOD))
    check = only_check(outcome)
    assert outcome.code == 0, outcome
    assert (check["tests"]["passed"], check["tests"]["failed"], check["tests"]["skipped"]) == (2, 0, 1)
    assert (check["before"]["exit_code"], check["before"]["tests"]["passed"]) == (1, 1)
    shown = corral("show", "@last").out
    assert "2 tests passed, 1 skipped" in shown


def test_a_failure_that_is_new_is_told_from_one_that_is_old(corral: Corral) -> None:
    outcome = judged(corral, write("sums.py", "def add(a, b):\n    return 0\ndef double(a):\n    return a\n"))
    check = only_check(outcome)
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert check["new_failures"] == ["test_sums.Sums.test_add"]
    assert check["old_failures"] == ["test_sums.Sums.test_double"]
    assert check["again"]["exit_code"] == 1
    assert check["flaky"] is False


def test_an_old_failure_alone_is_not_new_but_nothing_is_done(corral: Corral) -> None:
    outcome = judged(corral, "echo more > notes.txt")
    check = only_check(outcome)
    assert (outcome.code, outcome.attempt["error"]["class"]) == (1, "check_failed")
    assert (check["new_failures"], check["old_failures"]) == ([], ["test_sums.Sums.test_double"])


def test_a_check_whose_tests_do_not_run_any_more_proves_nothing(corral: Corral) -> None:
    outcome = judged(corral, write("sums.py", "import os\nos._exit(0)\n"))
    assert outcome.attempt["error"]["class"] == "doubtful"
    assert outcome.attempt["evidence"]["grade"] == "doubtful"
    assert outcome.attempt["branch"]
    assert f"corral merge {outcome.json['run']} --pick {outcome.attempt['id']}" in outcome.attempt["error"]["hint"]


def test_a_report_that_the_check_writes_is_read(corral: Corral) -> None:
    report = "<testsuite><testcase classname='a' name='b'/><testcase name='c'><skipped/></testcase></testsuite>"
    corral.agent("mine", "echo x > x")
    check = f'echo "{report}" > out.xml; : --junitxml=out.xml'
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--check", check)
    assert outcome.attempt["checks"][0]["tests"]["format"] == "junit"
    assert outcome.attempt["checks"][0]["tests"]["passed"] == 1


# --- chance, and what is not run twice


def counting(corral: Corral, test: str) -> tuple[list[str], Path]:
    """Return options for a check that counts its runs in a file outside, and passes if `test` holds for their number."""
    folder = corral.root / "counted"
    folder.mkdir()
    folder.chmod(0o777)
    count = folder / "count"
    check = f"c={count}; n=$(cat $c 2>/dev/null || echo 0); n=$((n + 1)); echo $n > $c; chmod 666 $c; [ {test} ]"
    return ["--check", check, "--write", "**", "--write", f"{folder}/**"], count


def test_work_that_fails_now_and_then_is_not_proven(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    options, count = counting(corral, "$n -gt 1")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0", *options)
    check = only_check(outcome)
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert "flaky" in outcome.attempt["error"]["message"]
    assert (check["flaky"], check["exit_code"], check["again"]["exit_code"]) == (True, 1, 0)
    assert count.read_text().strip() == "4"  # the work twice, and the base twice


def test_chance_that_the_base_knows_too_is_told_and_passes(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    options, _ = counting(corral, "$((n % 2)) -eq 0")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0", *options)
    check = only_check(outcome)
    assert outcome.code == 0, outcome
    assert (check["flaky"], check["exit_code"], check["again"]["exit_code"]) == (True, 0, 1)
    assert check["before"]["flaky"] is True
    assert any("flaky, here as at the base" in str(event) for event in corral.events("@last"))


def judged_by_count(corral: Corral, wrong: str) -> Outcome:
    """Judge work that changes nothing by a test that counts its runs outside, and fails where `wrong` holds for it."""
    folder = corral.root / "counted"
    folder.mkdir()
    folder.chmod(0o777)
    count = folder / "count"
    count.write_text("0")
    count.chmod(0o666)
    test = f"""import pathlib, unittest
class Count(unittest.TestCase):
    def test_count(self):
        file = pathlib.Path({str(count)!r})
        n = int(file.read_text()) + 1
        file.write_text(str(n))
        self.assertEqual("lost" if {wrong} else "ok", "ok")
"""
    shown = ["--write", "**", "--write", f"{folder}/**"]
    return judged(corral, "echo more > notes.txt", *shown, files={"tests/test_count.py": test})


def test_a_test_that_fails_at_times_here_and_at_the_base_shows_nothing(corral: Corral) -> None:
    outcome = judged_by_count(corral, "n % 2")
    check = only_check(outcome)
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed"), outcome
    assert outcome.attempt["evidence"]["reasons"] == [
        f"`{CHECK}` fails at times at the base: passing once shows nothing"
    ]
    assert (check["flaky"], check["tests"]["passed"], check["tests"]["failed"]) == (True, 1, 0)


@pytest.mark.parametrize("wrong", ["n == 2", "n % 3 == 2"])
def test_a_test_that_failed_at_the_base_by_chance_proves_nothing(corral: Corral, wrong: str) -> None:
    outcome = judged_by_count(corral, wrong)  # the first run is that of the work, the second that of the base
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed"), outcome
    assert outcome.attempt["evidence"]["reasons"] == [
        f"`{CHECK}` fails at times at the base (test_count.Count.test_count): passing once shows nothing"
    ]


@pytest.mark.parametrize(("holds", "where"), [("$n -ne 2 -a $n -ne 3", "at the base"), ("$n -eq 1", "on the work")])
def test_a_script_that_passes_by_chance_proves_nothing(corral: Corral, holds: str, where: str) -> None:
    corral.agent("mine", "echo x > x")
    options, _ = counting(corral, holds)
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0", *options)
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed"), outcome
    assert outcome.attempt["evidence"]["reasons"][0] == (
        f"`{options[1]}` fails at times {where}: passing once shows nothing"
    )


def test_the_same_tree_is_not_checked_twice_in_a_run(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    options, count = counting(corral, "1 -eq 2")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "1", *options)
    first, second = outcome.json["nodes"][0]["attempts"]
    assert [attempt["checks"][0]["cached"] for attempt in (first, second)] == [False, True]
    assert count.read_text().strip() == "4"  # the work twice, and the base twice


def test_another_run_from_the_same_base_does_not_check_that_again(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    repo = corral.repo()
    options, count = counting(corral, "1 -eq 2")
    for runs in ("4", "6"):
        corral.run(repo, "t", "--agent", "mine", "--retries", "0", *options)
        assert count.read_text().strip() == runs
