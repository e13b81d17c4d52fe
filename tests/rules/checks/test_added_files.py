"""New files of a check's tree: which a later run would read, and what that says."""

import pytest

from corral.model import CheckObservation, CheckResult, Report
from corral.rules.checks import grading, side_effects
from corral.rules.checks.grading import CheckRuns, WorkFacts

RESULT = CheckResult(command="pytest -q", exit_code=0, seconds=1.0)
TESTS = Report(runners=("pytest",), tests={"t.py::a": "passed"}, sessions=1)
BEFORE = CheckObservation(
    result=CheckResult(command="pytest -q", exit_code=1, seconds=1.0),
    report=Report(runners=("pytest",), tests={"t.py::a": "failed"}, sessions=1),
)


@pytest.mark.parametrize(
    "path", ["textkit/stamp.py", "conftest.py", "tests/test_more.py", "lib/a.js", "pytest.ini", "tests/x.ambr", "x.sh"]
)
def test_code_and_what_steers_tests_is_read_by_the_next_run(path: str) -> None:
    assert side_effects.telling_files([path], "*.log\n") == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "a/__pycache__/x.py", ".pytest_cache/README.md", ".coverage", "coverage.xml", "htmlcov/index.js", "build/lib/x.py", "x.egg-info/a.py",
        "target/debug/build.rs", "node_modules/a/index.js", "junit.xml", "out.txt", "data.sqlite", "Cargo.lock", "package-lock.json",
        "check", "slug.o", "src/slug.d", "native.so", "dist/main.js", ".tox/py/lib.py", "Testing/x.c", "_version.py", "gen2/parser.c",
    ],
)  # fmt: skip
def test_what_tools_leave_is_not(path: str) -> None:
    assert side_effects.telling_files([path], "_version.py\ngen2/\n") == ()


def test_what_steers_tests_counts_though_git_ignores_it() -> None:
    assert side_effects.telling_files(["conftest.py", "made.py"], "conftest.py\nmade.py\n") == ("conftest.py",)


def test_work_whose_check_adds_such_files_is_at_most_unharmed() -> None:
    for added, grade in ((), "proven"), (("a.py", "b.py", "c.py", "d.py"), "unharmed"):
        now = CheckObservation(result=RESULT, report=TESTS, added=added)
        found = grading.grade(CheckRuns(delivered=(now,), base=(BEFORE,)), WorkFacts()).evidence
        assert found is not None
        assert found.grade == grade
    words = "`pytest -q` adds files to the repository which its next run would read: a.py, b.py, c.py and 1 more"
    assert words in found.reasons
