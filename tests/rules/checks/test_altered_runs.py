"""Runs with altered tests: what they say against work, and which doubts they settle."""

from __future__ import annotations

import pytest

from corral.model import CheckObservation, CheckResult, Doubt, Report
from corral.model.evidence import Outcome
from corral.rules.checks import grading
from corral.rules.checks.altering import AlteredFiles, AlteredTest
from corral.rules.checks.grading import CheckRuns, WorkFacts
from corral.rules.checks.steering.text_patterns import CALLERS, EQUAL, EXITS, PATCHES

A, B = "t.py::a", "t.py::b"
SCRIPT = AlteredFiles(files={"check.sh": ""}, scripts={"sh check.sh": (AlteredTest("check.sh", exact=False),)})


def seen(
    code: int, tests: dict[str, Outcome] | None = None, note: str = "", command: str = "pytest -q"
) -> CheckObservation:
    result = CheckResult(command=command, exit_code=code, seconds=1.0, note=note)
    return CheckObservation(
        result=result, report=Report(runners=("pytest",), tests=tests, sessions=1) if tests else None
    )


def script(code: int, note: str = "") -> CheckObservation:
    """Return what is seen of a check in which no reporter of ours runs."""
    return seen(code, note=note, command="sh check.sh")


def graded(
    run: CheckObservation, *, exact: bool = True, doubts: tuple[str, ...] = (), altered: AlteredFiles | None = None
) -> grading.GradingResult:
    ids = altered is None
    change = altered or AlteredFiles(files={"t.py": ""}, tests=(AlteredTest(B, exact=exact),))
    weak = tuple(Doubt(path="app.py", line=1, words=words, strong=False) for words in doubts)
    before = seen(1, {A: "passed", B: "failed"}) if ids else script(1)
    now = seen(0, {A: "passed", B: "passed"}) if ids else script(0)
    return grading.grade(
        CheckRuns(delivered=(now,), base=(before,), altered=(run,)), WorkFacts(doubts=weak, altered=change)
    )


def word(found: grading.GradingResult) -> str:
    assert found.evidence is not None
    return found.evidence.grade


def test_an_altered_test_that_passes_speaks_against_the_work() -> None:
    found = graded(seen(0, {A: "passed", B: "passed"}))
    assert word(found) == "doubtful"
    assert found.evidence is not None
    assert found.evidence.reasons[0] == f"`pytest -q` passes whatever its tests expect: {B}"
    assert found.altered[0].unnoticed == found.altered[0].names == (B,)


@pytest.mark.parametrize(
    "run",
    [
        seen(1, {A: "passed", B: "failed"}),
        seen(0, {A: "passed", B: "skipped"}),
        seen(0, {A: "passed", B: "xfailed"}),
        seen(0, {A: "passed"}),
        seen(0),
        seen(2),
        seen(-9, note="`pytest -q` was not done in time"),
    ],
)
def test_everything_else_accuses_nobody(run: CheckObservation) -> None:
    assert word(graded(run)) == "proven"


def test_a_script_without_ids_is_judged_by_its_exit_code() -> None:
    assert word(graded(script(0), altered=SCRIPT)) == "doubtful"
    assert word(graded(script(1), altered=SCRIPT)) == "proven"
    assert word(graded(script(0, note="stopped"), altered=SCRIPT)) == "proven"
    other = AlteredFiles(files={"check.sh": ""}, scripts={"sh other.sh": (AlteredTest("check.sh", exact=False),)})
    assert word(graded(script(0), altered=other)) == "proven"


@pytest.mark.parametrize(
    ("words", "exact", "grade"),
    [
        (EXITS, True, "proven"),
        (EXITS, False, "proven"),
        (PATCHES, True, "proven"),
        (PATCHES, False, "unharmed"),
        (EQUAL, True, "unharmed"),
        (CALLERS, True, "unharmed"),
    ],
)
def test_doubts_about_failures_are_settled_where_every_altered_test_fails(
    words: str, grade: str, *, exact: bool
) -> None:
    assert word(graded(seen(1, {A: "passed", B: "failed"}), exact=exact, doubts=(words,))) == grade
    assert word(graded(seen(1, {A: "passed"}), exact=exact, doubts=(words,))) == "unharmed"


def test_doubts_stay_where_a_test_that_shows_progress_was_not_altered() -> None:
    change = AlteredFiles(files={"t.py": ""}, tests=(AlteredTest(A, exact=True),))
    weak = (Doubt(path="app.py", line=1, words=EXITS, strong=False),)
    before, now = seen(1, {A: "failed", B: "failed"}), seen(0, {A: "passed", B: "passed"})
    run = seen(1, {A: "failed", B: "passed"})
    found = grading.grade(
        CheckRuns(delivered=(now,), base=(before,), altered=(run,)), WorkFacts(doubts=weak, altered=change)
    )
    assert word(found) == "unharmed"


def test_only_work_that_would_be_proven_is_worth_it() -> None:
    before, now = seen(1, {A: "passed", B: "failed"}), seen(0, {A: "passed", B: "passed"})
    assert grading.worth_altering(CheckRuns(delivered=(now,), base=(before,)), WorkFacts()) == (B,)
    assert grading.worth_altering(CheckRuns(delivered=(now,), base=(now,)), WorkFacts()) == ()
    weak = WorkFacts(doubts=(Doubt(path="app.py", line=1, words=CALLERS, strong=False),))
    assert grading.worth_altering(CheckRuns(delivered=(now,), base=(before,)), weak) == ()
    settled = WorkFacts(doubts=(Doubt(path="app.py", line=1, words=EXITS, strong=False),))
    assert grading.worth_altering(CheckRuns(delivered=(now,), base=(before,)), settled) == (B,)
    assert grading.worth_altering(CheckRuns(delivered=(script(0),), base=(script(1),)), WorkFacts()) == ("sh check.sh",)
    assert grading.worth_altering(CheckRuns(delivered=(seen(0),), base=(seen(1),)), WorkFacts()) == ()


OTHER = "other.py::c"


@pytest.mark.parametrize(
    ("end", "grade"), [("failed", "unharmed"), ("passed", "proven"), ("skipped", "proven"), (None, "proven")]
)
def test_a_test_that_nobody_altered_and_that_fails_all_the_same_proves_nothing(end: Outcome | None, grade: str) -> None:
    before, now = (
        seen(1, {A: "passed", B: "failed", OTHER: "passed"}),
        seen(0, {A: "passed", B: "passed", OTHER: "passed"}),
    )
    ends: dict[str, Outcome] = {A: "passed", B: "failed"}
    if end:
        ends[OTHER] = end
    run = seen(1, ends)
    change = AlteredFiles(files={"t.py": ""}, tests=(AlteredTest(B, exact=True),))
    found = grading.grade(CheckRuns(delivered=(now,), base=(before,), altered=(run,)), WorkFacts(altered=change))
    assert word(found) == grade
    assert found.altered[0].unstable == ((OTHER,) if end == "failed" else ())


def test_tests_of_the_altered_file_may_fail_with_it() -> None:
    found = graded(seen(1, {A: "failed", B: "failed"}))
    assert word(found) == "proven"
