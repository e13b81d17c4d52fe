"""Runs of tests in another order, and of the same once more: when they are made, and what they show."""

import pytest
from msgspec import structs

from corral.model import CheckObservation, CheckResult, Doubt, Report
from corral.model.evidence import Outcome
from corral.rules.checks import base_comparison, further_runs, grading
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


# --- the same once more


def repeated(*ends: Outcome, name: str = A) -> CheckObservation:
    """Return a run at the base in which one test ran again and again."""
    found = seen(1 if "failed" in ends else 0, {name: "failed" if "failed" in ends else "passed"})
    assert found.report is not None
    return structs.replace(found, report=structs.replace(found.report, repeated={name: ends} if len(ends) > 1 else {}))


@pytest.mark.parametrize(
    ("ends", "whole", "named"),
    [
        (("failed",) * 8, 0, False),
        (("failed",), 0, False),
        (("failed", "passed", "failed", "passed"), 0, True),
        (("passed", "failed", "passed"), 0, True),
        (("passed",) * 8, 1, True),
        (("failed", *["passed"] * 7), 1, True),
        (("passed",), 2, True),
    ],
)
def test_a_test_that_passes_at_the_base_at_times_proves_nothing(
    ends: tuple[Outcome, ...], whole: int, named: bool
) -> None:
    again = repeated(*ends)
    assert further_runs.whole_needed([(BEFORE, NOW)], [again]) == whole
    runs = CheckRuns(delivered=(NOW,), base=(BEFORE,), base_again=((again,),))
    passes = structs.replace(runs, base_whole=((seen(1, {A: "passed", B: "failed"}),),) * whole)
    found = grading.grade(passes, WorkFacts()).evidence
    assert found is not None
    assert found.grade == ("unharmed" if named else "proven")
    if named:
        assert found.reasons == (f"`pytest -q` fails at times at the base ({A}): passing once shows nothing",)
    if whole:  # it passes alone, or once something is there, and fails among the others each time
        fails = structs.replace(runs, base_whole=((BEFORE,),) * whole)
        found = grading.grade(fails, WorkFacts()).evidence
        assert found is not None
        assert found.grade == "proven"


def test_fixed_tests_alone_run_again_where_a_reporter_can_choose_them() -> None:
    order = further_runs.repeated_order([(BEFORE, NOW)], 10.0)
    assert order is not None
    assert (order.only, order.most, order.times, order.seconds) == ((A, B), 10, 20, pytest.approx(2.3))
    many: dict[str, Outcome] = {f"t.py::{number}": "passed" for number in range(25)}
    order = further_runs.repeated_order([(seen(1, dict.fromkeys(many, "failed")), seen(0, many))], 1.0)
    assert order is not None
    assert len(order.only) == 9
    assert further_runs.repeated_order([(seen(1, {A: "failed"}, "go"), seen(0, {A: "passed"}, "go"))], 1.0) is None


@pytest.mark.parametrize(
    ("seconds", "twice", "times"),
    [(0.05, True, (3, 3)), (1.0, False, (1, 1)), (6.0, False, (1, 0)), (6.0, True, (0, 0))],
)
def test_checks_whose_tests_cannot_be_chosen_run_again_where_that_is_cheap(
    seconds: float, twice: bool, times: tuple[int, int]
) -> None:
    again = base_comparison.sighting(seen(1, {}).result) if twice else None
    before, now = (
        CheckObservation(result=CheckResult(command="sh t.sh", exit_code=code, seconds=seconds, again=more))
        for code, more in ((1, again), (0, None))
    )
    assert further_runs.whole_runs([(before, now)], seconds) == times
    failed, passed = structs.replace(before, result=structs.replace(before.result, again=None)), now
    for base, work, words in (
        ((failed, passed), (), "fails at times at the base"),
        ((failed,), (passed, failed), "fails at times on the work"),
        ((failed,), (passed,), ""),
    ):
        limits = further_runs.chance_limits(before, now, base, (), work)
        assert limits == ([f"`sh t.sh` {words}: passing once shows nothing"] if words else [])
