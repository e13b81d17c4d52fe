"""`corral evidence` and the other places that show a grade: how a result was checked, in words and as a document."""

from typing import Any

import pytest

from corral.model import Doubt, Evidence, EvidenceDetail, EvidenceRun, SteeringFile, Tally, TestChange
from corral.store.sqlite.store import Store
from tests.rig.command import Corral
from tests.rig.repository import Repo

REASON = "fails at the base, passes here and with the base's own tests: 1 test fixed"
DETAIL = EvidenceDetail(
    trees={"delivered": "d" * 40, "base": "b" * 40, "harness": "a" * 40},
    runs=(
        EvidenceRun(tree="delivered", command="pytest -q", exit_code=0, seconds=1.2, reporter=("pytest",),
                    tests=Tally("pytest", 4)),
        EvidenceRun(tree="base", command="pytest -q", exit_code=1, cached=True, tests=Tally("pytest", 3, 1)),
        EvidenceRun(tree="harness", command="pytest -q", exit_code=124, note="`pytest -q` did not end within 60 s"),
    ),
    tests=(
        TestChange(command="pytest -q", before=4, after=5, fixed=("tests/test_sums.py::test_add",),
                   missing=("tests/test_sums.py::test_\x1b[31mred",), added=1),
    ),
    steered=(SteeringFile(path="conftest.py", how="removed", why="runner configuration"),),
    doubts=(Doubt(path="sums.py", line=7, words="names a test runner", strong=False),),
    notes=("with the base's own tests, as conftest.py changed",),
)  # fmt: skip


@pytest.fixture
def graded(corral: Corral) -> str:
    """Return a run whose evidence is known."""
    repo = corral.repo(files={"sums.py": "def add(a, b):\n    return a - b\n"})
    corral.agent("mends", "printf 'def add(a, b):\\n    return a + b\\n' > sums.py")
    check = "python3 -c 'from sums import add; assert add(1, 2) == 3'"
    run = str(corral.run(repo, "mend add()", "--agent", "mends", "--check", check).json["run"])
    store = Store(corral.home)
    (record,) = store.attempts(run)
    record.attempt.evidence, record.evidence = Evidence(grade="proven", reasons=(REASON,)), DETAIL
    store.save_attempt(record)
    store.close()
    return run


def test_the_evidence_of_a_run_in_words(corral: Corral, graded: str) -> None:
    told = corral("evidence", graded)
    assert told.code == 0, told
    lines = told.out.splitlines()
    assert lines[:2] == [f"proven  {graded}-1 (mends): done, the winner", f"  {REASON}"]
    assert f"  base           {'b' * 12}  what the work started from" in lines
    rows = [" ".join(line.split()) for line in lines]
    assert "delivered passed 4/4 1.2 s pytest pytest -q" in rows
    assert "base FAILED (1) 3/4 known exit code pytest -q" in rows
    assert "harness `pytest -q` did not end within 60 s - 0.0 s exit code pytest -q" in rows
    assert "4 at the base, 5 now, 1 new" in rows
    assert "fixed tests/test_sums.py::test_add" in rows
    assert "removed conftest.py: runner configuration" in rows
    assert "sums.py:7: names a test runner (with it nothing is proven)" in rows
    assert rows[-2:] == ["checks were also run", "with the base's own tests, as conftest.py changed"]
    assert "\x1b" not in told.out, "names of tests are an agent's words"


@pytest.mark.parametrize("named", [("@last",), (), ("@last", "1"), ("@last", "mends"), ("1",), ("mends",)])
def test_run_and_attempt_are_found_as_elsewhere(corral: Corral, graded: str, named: tuple[str, ...]) -> None:
    found = corral("evidence", *named, "--json").json
    assert (found["run"], found["attempt"], found["grade"]) == (graded, f"{graded}-1", "proven")


def test_the_evidence_of_a_run_as_a_document(corral: Corral, graded: str) -> None:
    found: dict[str, Any] = corral("evidence", graded, f"{graded}-1", "--json").json
    assert found["reasons"] == [REASON]
    assert found["trees"] == {"delivered": "d" * 40, "base": "b" * 40, "harness": "a" * 40}
    assert [(each["tree"], each["exit_code"]) for each in found["runs"]] == [
        ("delivered", 0), ("base", 1), ("harness", 124)
    ]  # fmt: skip
    assert found["tests"][0]["fixed"] == ["tests/test_sums.py::test_add"]
    assert found["steered"] == [{"path": "conftest.py", "how": "removed", "why": "runner configuration"}]
    assert [each["grade"] for each in found["attempts"]] == ["proven"]


def test_what_is_not_there_is_said_in_one_line(corral: Corral, graded: str) -> None:
    bad = corral("evidence", graded, "9")
    assert (bad.code, bad.err) == (
        2,
        f"error: run {graded} has no attempt `9`\nhint: it has: {graded}-1 (mends)\n",
    )
    assert corral("evidence", "nothing", "1").code == 2


def test_the_grade_stands_wherever_the_result_does(corral: Corral, graded: str) -> None:
    assert f"evidence proven: {REASON}" in corral("show", graded).out
    (row,) = corral("compare", graded, "--json").json["nodes"][0]["attempts"]
    assert row["evidence"] == {"grade": "proven", "reasons": [REASON]}
    assert " proven " in corral("compare", graded).out
    document = corral("show", graded, "--json").json
    assert document["nodes"][0]["attempts"][0]["evidence"]["grade"] == "proven"


def test_an_attempt_without_a_grade_says_why(corral: Corral) -> None:
    repo = Repo.make(corral.root / "other")
    corral.agent("fails", "echo x > x.txt")
    corral.run(repo, "t", "--agent", "fails", "--check", "false", "--retries", "0")
    told = corral("evidence")
    assert told.code == 0
    assert told.out.splitlines()[0].startswith("no grade  ")
    assert "check_failed" in told.out.splitlines()[1]
