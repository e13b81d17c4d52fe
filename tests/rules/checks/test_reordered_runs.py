"""Runs of tests in another order: when they are made, and what they show."""

import pytest

from corral.model import CheckObservation, CheckResult, Doubt, Report
from corral.model.evidence import Outcome
from corral.rules.checks import further_runs, grading
from corral.rules.checks.altering import AlteredFiles, AlteredTest
from corral.rules.checks.grading import CheckRuns, WorkFacts
from corral.rules.checks.steering.text_patterns import EQUAL, EXITS

A, B, C = "t.py::a", "t.py::b", "u.py::c"


def seen(code: int, tests: dict[str, Outcome], runner: str = "pytest") -> CheckObservation:
    result = CheckResult(command="pytest -q", exit_code=code, seconds=1.0)
    return CheckObservation(result=result, report=Report(runners=(runner,), tests=tests, sessions=1))


BEFORE = seen(1, {A: "failed", B: "failed", C: "passed"})
NOW = seen(0, {A: "passed", B: "passed", C: "passed"})


@pytest.mark.parametrize(
    ("ends", "named"),
    [
        ({A: "passed", B: "passed", C: "passed"}, ""),
        ({C: "passed"}, ""),
        ({C: "failed"}, C),
        ({A: "passed", B: "failed", C: "skipped"}, B),
        ({"v.py::other": "failed"}, ""),
    ],
)
def test_a_test_that_fails_in_another_order_proves_nothing(ends: dict[str, Outcome], named: str) -> None:
    again = seen(1 if named else 0, ends)
    found = grading.grade(CheckRuns(delivered=(NOW,), base=(BEFORE,), reordered=(again,)), WorkFacts()).evidence
    assert found is not None
    assert found.grade == ("unharmed" if named else "proven")
    if named:
        assert found.reasons[0] == (
            f"`pytest -q` has tests that pass only by chance, or only in their usual order: {named}"
        )


def test_only_runners_that_can_change_the_order_are_asked_to() -> None:
    found = further_runs.reversed_order((A, B, C), [NOW], 10.0)
    assert found is not None
    assert (found.turned, found.only, found.seconds) == (True, (), pytest.approx(2.3))
    assert found.first == (B, C)  # one of each file
    assert further_runs.reversed_order((A,), [seen(0, {A: "passed", B: "passed"}, "go")], 1.0) is None
    assert further_runs.reversed_order((A,), [seen(0, {A: "passed"})], 1.0) is None
    assert further_runs.reversed_order((), [CheckObservation(result=NOW.result)], 1.0) is None


def test_altered_tests_run_alone_unless_a_script_decides() -> None:
    tests = (AlteredTest(A, exact=True), AlteredTest(C, exact=True))
    found = further_runs.order_alone(AlteredFiles(tests=tests), every=False)
    assert found is not None
    assert (found.only, found.most) == ((A, C), 10)
    every = further_runs.order_alone(AlteredFiles(tests=tests), every=True)
    assert every is not None
    assert every.most == 0
    script = AlteredFiles(tests=tests, scripts={"sh check.sh": (AlteredTest("check.sh", exact=True),)})
    assert further_runs.order_alone(script, every=False) is None


def test_all_parameters_run_where_a_doubt_depends_on_it() -> None:
    assert grading.needs_every_test(WorkFacts(doubts=(Doubt(path="a.py", line=1, words=EXITS, strong=False),)))
    assert not grading.needs_every_test(WorkFacts(doubts=(Doubt(path="a.py", line=1, words=EQUAL, strong=False),)))
