"""Grades: every way from what was run to a word, its reasons and a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from corral.model import CheckObservation, CheckResult, Doubt, Report, SteeringFile, Tally
from corral.model.evidence import Outcome
from corral.rules.checks import base_comparison, further_runs, grading, side_effects
from corral.rules.checks.grading import CheckRuns, WorkFacts

CHECK = "pytest -q"
CONFTEST = SteeringFile(path="conftest.py", how="removed", why="runner configuration")
NAMED = SteeringFile(path="tests/test_a.py", how="allowed", why="an existing test")


def seen(code: int = 0, tests: dict[str, Outcome] | None = None, *, note: str = "", **report: Any) -> CheckObservation:
    result = CheckResult(command=CHECK, exit_code=code, seconds=1.0, note=note)
    if tests is None and not report:
        return CheckObservation(result=result)
    return CheckObservation(result=result, report=Report(runners=("pytest",), tests=tests or {}, sessions=1, **report))


GOOD: dict[str, Outcome] = {"t.py::a": "passed", "t.py::b": "passed"}
BAD: dict[str, Outcome] = {"t.py::a": "passed", "t.py::b": "failed"}


def by(command: str, code: int) -> CheckObservation:
    """Return a run of another check, of which no reporter knows."""
    return CheckObservation(result=CheckResult(command=command, exit_code=code, seconds=1.0))


def graded(work: WorkFacts | None = None, /, **runs: CheckObservation) -> tuple[str | None, str]:
    """Return the grade and all reasons, or why a check fails."""
    ran = CheckRuns(**{"base": (seen(1, BAD),), **{name: (each,) for name, each in runs.items()}})  # type: ignore[arg-type]
    found = grading.grade(ran, work or WorkFacts())
    if found.evidence is None:
        return None, found.results[0].note
    return found.evidence.grade, "; ".join(found.evidence.reasons)


# --- the plain cases


def test_what_fails_at_the_base_and_passes_now_is_proven() -> None:
    grade, reasons = graded(delivered=seen(0, GOOD))
    assert (grade, reasons) == ("proven", "fails at the base, passes here: 1 test fixed")
    grade, reasons = graded(delivered=seen(0, GOOD), harness=seen(0, GOOD))
    assert (grade, reasons) == ("proven", "fails at the base, passes here and with the base's own tests: 1 test fixed")


def test_what_passes_everywhere_is_unharmed() -> None:
    grade, reasons = graded(delivered=seen(0, GOOD), base=seen(0, GOOD))
    assert (grade, reasons) == ("unharmed", "passes at the base as well: nothing shows progress")


def test_a_check_that_fails_has_no_grade() -> None:
    assert graded(delivered=seen(1, BAD)) == (None, "")


def test_without_a_base_nothing_shows_progress() -> None:
    found = grading.grade(CheckRuns(delivered=(seen(),)), WorkFacts())
    assert found.evidence is not None
    assert found.evidence.grade == "unharmed"
    doubt = Doubt(path="a.py", line=3, words="it looks for pytest", strong=True)
    found = grading.grade(CheckRuns(delivered=(seen(),)), WorkFacts(doubts=(doubt,)))
    assert found.evidence is not None
    assert found.evidence.grade == "doubtful"


@pytest.mark.parametrize(
    "base", [seen(127), seen(126), seen(1, note="`pytest -q` was not done in time"),
             structs.replace(seen(1), result=structs.replace(seen(1).result, flaky=True))]
)  # fmt: skip
def test_a_base_that_could_not_be_run_or_is_flaky_shows_no_progress(base: CheckObservation) -> None:
    assert graded(delivered=seen(0), base=base)[0] == "unharmed"


def test_an_unknown_runner_is_judged_by_its_exit_code_and_that_is_said() -> None:
    grade, reasons = graded(delivered=by("sh check.sh", 0), base=by("sh check.sh", 1))
    assert grade == "proven"
    assert reasons.endswith("no reporter for this runner: `sh check.sh` is judged by its exit code alone")


def test_counts_alone_are_no_report_and_that_is_said() -> None:
    now = by("sh check.sh", 0)
    now = structs.replace(now, result=structs.replace(now.result, tests=Tally("jest", 3, 0, 0)))
    grade, reasons = graded(delivered=now, base=by("sh check.sh", 1))
    words = (
        "no reporter for this runner: `sh check.sh` is judged by its exit code and the counts of tests that it prints"
    )
    assert (grade, reasons) == ("proven", f"fails at the base, passes here; {words}")


@pytest.mark.parametrize("command", ["python3 -I -m pytest -q", "pytest -q", "A=1 python -E -m unittest discover"])
def test_a_runner_that_keeps_the_reporter_out_proves_nothing(command: str) -> None:
    grade, reasons = graded(delivered=by(command, 0), base=by(command, 1))
    assert grade == "unharmed"
    assert "keeps Corral's test reporter out" in reasons


# --- what steers


def test_what_passes_only_with_changed_steering_files_fails() -> None:
    grade, note = graded(WorkFacts(steered=(CONFTEST,)), delivered=seen(0, GOOD), harness=seen(1, BAD))
    assert grade is None
    assert note == "`pytest -q` passes only with changed files that steer it: conftest.py (runner configuration)"


def test_a_harness_that_is_not_done_in_time_fails_and_says_so() -> None:
    late = seen(1, note="`pytest -q` was not done in time")
    grade, note = graded(WorkFacts(steered=(CONFTEST,)), delivered=seen(0, GOOD), harness=late)
    assert grade is None
    assert "was not done in time" in note


def test_what_the_task_names_may_change_but_proves_nothing() -> None:
    work = WorkFacts(steered=(NAMED,))
    runs = {"delivered": seen(0, GOOD), "harness": seen(1, BAD)}
    assert grading.needs_allowed(CheckRuns(delivered=(seen(0),), harness=(seen(1),)), work)
    grade, reasons = graded(work, **runs, allowed=seen(0, GOOD), control=seen(1, BAD))
    assert grade == "unharmed"
    assert "only with files that the task allows to change: tests/test_a.py" in reasons
    grade, reasons = graded(work, **runs, allowed=seen(0, GOOD), control=seen(0, GOOD))
    assert grade == "unharmed"
    assert "does not depend on the product" in reasons
    assert graded(work, **runs, allowed=seen(1, BAD))[0] is None
    work = WorkFacts(steered=(NAMED,), unasked=("tests/test_a.py",))
    assert graded(work, **runs, allowed=seen(0, GOOD), control=seen(1, BAD))[0] == "unharmed"
    grade, reasons = graded(work, **runs, allowed=seen(0, GOOD), control=seen(0, GOOD))
    assert (grade, "does not ask to change tests/test_a.py" in reasons) == ("doubtful", True)


def test_what_the_task_names_is_proven_where_the_base_s_own_pass_too() -> None:
    work = WorkFacts(steered=(NAMED,))
    assert not grading.needs_allowed(CheckRuns(delivered=(seen(0),), harness=(seen(0),)), work)
    assert graded(work, delivered=seen(0, GOOD), harness=seen(0, GOOD))[0] == "proven"


def test_tests_that_the_task_names_may_go() -> None:
    work = WorkFacts(steered=(NAMED,))
    base = seen(0, {"tests/test_a.py::x": "passed", "tests/test_b.py::y": "passed"})
    runs = {
        "delivered": seen(0, {"tests/test_b.py::y": "passed"}),
        "harness": seen(1, {"tests/test_a.py::x": "failed"}),
    }
    grade, reasons = graded(work, base=base, **runs, allowed=seen(0, {"tests/test_b.py::y": "passed"}))
    assert grade == "unharmed", reasons
    grade, _ = graded(work, base=base, **runs, allowed=seen(0, {"tests/test_a.py::x": "passed"}))
    assert grade == "doubtful"


def test_only_tests_of_the_work_itself_prove_nothing() -> None:
    none = seen(5, {})
    own = seen(0, {"test_new.py::a": "passed"})
    new = WorkFacts(steered=(SteeringFile(path="test_new.py", how="new test", why="a new test"),))
    grade, reasons = graded(new, delivered=own, base=none, harness=none)
    assert grade == "unharmed"
    assert "only tests of the work itself ran" in reasons
    grade, reasons = graded(structs.replace(new, own=(True,)), delivered=own, base=seen(4))
    assert grade == "unharmed", reasons
    assert graded(structs.replace(new, own=(True,)), delivered=own, base=seen(4), harness=seen(1))[0] is None


def test_of_several_checks_one_may_run_only_tests_of_the_work_itself() -> None:
    own, old = seen(0, {"test_new.py::a": "passed"}), seen(0, GOOD)
    ran = CheckRuns(delivered=(old, own), base=(seen(1, BAD), seen(4)), harness=(old, seen(4)))
    found = grading.grade(ran, WorkFacts(own=(False, True), steered=(CONFTEST,))).evidence
    assert found is not None
    assert found.grade == "proven"


def test_a_collection_error_is_not_a_repository_without_tests() -> None:
    assert (
        graded(WorkFacts(steered=(CONFTEST,)), delivered=seen(0, GOOD), base=seen(2, {}), harness=seen(2, {}))[0]
        is None
    )


def test_a_product_that_decides_by_its_own_exit_code_proves_nothing() -> None:
    grade, reasons = graded(WorkFacts(decides=(("app.py",),)), delivered=seen(0), base=seen(1))
    assert grade == "unharmed"
    assert "app.py" in reasons


def test_a_harness_that_is_flaky_where_the_base_is_not_is_doubtful() -> None:
    flaky = structs.replace(seen(1, GOOD), result=structs.replace(seen(1).result, flaky=True))
    assert graded(WorkFacts(steered=(CONFTEST,)), delivered=seen(0, GOOD), harness=flaky)[0] == "doubtful"


# --- doubts


@pytest.mark.parametrize("outcome", ["skipped", "xfailed", None])
@pytest.mark.parametrize("before", ["passed", "failed"])
def test_a_test_that_ran_at_the_base_must_run_and_pass(before: Outcome, outcome: Outcome | None) -> None:
    now: dict[str, Outcome] = {"t.py::a": "passed"}
    if outcome:
        now["t.py::b"] = outcome
    grade, reasons = graded(delivered=seen(0, now), base=seen(1, {"t.py::a": "failed", "t.py::b": before}))
    assert grade == "doubtful"
    assert "t.py::b" in reasons


def test_no_test_at_all_is_doubtful() -> None:
    assert graded(delivered=seen(0, {}))[0] == "doubtful"
    assert graded(delivered=seen(0))[0] == "doubtful"


def test_a_runner_that_is_changed_from_inside_or_never_ends_is_doubtful() -> None:
    kinds: list[dict[str, Any]] = [{"doubts": ("pytest's own code was replaced",)}, {"unfinished": ("a script",)}]
    for report in kinds:
        assert graded(delivered=seen(0, GOOD, **report))[0] == "doubtful"
        assert graded(delivered=seen(0, GOOD), harness=seen(0, GOOD, **report))[0] == "doubtful"
        assert graded(delivered=seen(0, GOOD, **report), base=seen(1, BAD, **report))[0] == "doubtful"
        # What the base's own runs do, and pass, is its way.
        assert graded(delivered=seen(0, GOOD, **report), base=seen(0, GOOD, **report))[0] == "unharmed"


def test_strong_doubts_and_shadowing_modules_are_doubtful() -> None:
    doubt = Doubt(path="a.py", line=3, words="it looks for pytest", strong=True)
    grade, reasons = graded(WorkFacts(doubts=(doubt,)), delivered=seen(0, GOOD))
    assert (grade, reasons) == ("doubtful", "a.py:3: it looks for pytest")
    weak = structs.replace(doubt, strong=False)
    grade, reasons = graded(WorkFacts(doubts=(weak,)), delivered=seen(0, GOOD))
    assert (grade, reasons) == ("unharmed", "a.py:3: it looks for pytest: checks alone cannot tell; look at it")
    listed = structs.replace(weak, caps=False)
    assert graded(WorkFacts(doubts=(listed,)), delivered=seen(0, GOOD))[0] == "proven"
    assert graded(WorkFacts(shadows=("pluggy",)), delivered=seen(0, GOOD))[0] == "doubtful"


def test_weak_doubts_of_a_reporter_prove_nothing_unless_the_base_has_them() -> None:
    replaced = "code of the work replaced `JSON.parse`"
    grade, reasons = graded(delivered=seen(0, GOOD, weak=(replaced,)), base=seen(1, BAD))
    assert (grade, reasons) == ("unharmed", f"{replaced}: checks alone cannot tell; look at it")
    assert graded(delivered=seen(0, GOOD, weak=(replaced,)), base=seen(1, BAD, weak=(replaced,)))[0] == "proven"


def test_held_out_checks_do_not_lift_a_weak_doubt() -> None:
    weak = Doubt(path="a.py", line=3, words="replaces json.loads", strong=False)
    held_out = {"held_out": seen(0, GOOD), "held_out_base": seen(1, BAD)}
    grade, reasons = graded(WorkFacts(doubts=(weak,), held_out=("t.py",)), delivered=seen(0, GOOD), **held_out)
    assert grade == "unharmed"
    assert "held-out checks pass" in reasons
    assert "pass at the base as well" not in reasons


def test_reasons_are_bounded() -> None:
    doubts = tuple(Doubt(path="a.py", line=place, words="x" * 1000, strong=True) for place in range(100))
    found = grading.grade(CheckRuns(delivered=(seen(0),), base=(seen(1),)), WorkFacts(doubts=doubts)).evidence
    assert found is not None
    assert len(found.reasons) == grading.MOST_REASONS
    assert all(len(each) <= grading.MOST_SIGNS for each in found.reasons)


# --- held-out files


HIDDEN: dict[str, Outcome] = {"h.py::x": "passed"}
UNSEEN = WorkFacts(held_out=("h.py",), check_texts=(CHECK,))


def test_held_out_checks_that_pass_are_the_best_evidence() -> None:
    fails = seen(1, {**BAD, "h.py::x": "failed"})
    runs = {"delivered": seen(0, GOOD), "held_out": seen(0, GOOD | HIDDEN), "held_out_base": fails}
    grade, reasons = graded(UNSEEN, **runs)
    assert (grade, "never saw pass, and fail at the base" in reasons) == ("held-out", True)
    assert graded(UNSEEN, **runs, base=seen(0, GOOD))[0] == "held-out"  # they show the progress by themselves
    runs["held_out_base"] = seen(1, BAD | HIDDEN)
    grade, reasons = graded(UNSEEN, **runs)
    assert (grade, "never saw pass, and pass at the base as well: they show nothing" in reasons) == ("proven", True)
    runs["held_out_base"] = seen(0, GOOD | HIDDEN)
    grade, reasons = graded(UNSEEN, **runs, base=seen(0, GOOD))
    assert (grade, reasons.count("held-out checks pass")) == ("unharmed", 1)


@pytest.mark.parametrize("files", [("h.py",), ("tests/test_hidden.py",), ("t/extra.sh", "data/cases.json")])
def test_held_out_files_that_no_check_ran_prove_nothing(files: tuple[str, ...]) -> None:
    work = structs.replace(UNSEEN, held_out=files)
    for good, bad in ((seen(0, GOOD), seen(1, BAD)), (by("sh check.sh", 0), by("sh check.sh", 1))):
        grade, reasons = graded(work, delivered=good, base=bad, held_out=good, held_out_base=bad)
        assert (grade, "no check ran the held-out files" in reasons) == ("proven", True)
        grade, reasons = graded(work, delivered=good, base=good, held_out=good, held_out_base=good)
        assert (grade, "no check ran the held-out files" in reasons) == ("unharmed", True)


@pytest.mark.parametrize(
    ("text", "path", "runs"),
    [
        ("sh t/run.sh", "t/run.sh", True),
        ("./all.sh\nfor t in cases/*.sh; do sh $t; done", "cases/more.sh", True),
        ("python3 check.py\nfrom hidden import cases", "hidden.py", True),
        ("prove -l t", "t/more.t", True),
        ("python3 check.py", "tests/test_hidden.py", False),
        ("sh t/run.sh", "t/other.sh", False),
    ],
)
def test_plain_checks_run_held_out_files_that_they_name(text: str, path: str, runs: bool) -> None:
    assert further_runs.runs_held_out(seen(0), seen(0), [path], text) is runs


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tests/test_h.py::test_a", "tests/test_h.py"),
        ("tests.test_h.Sums.test_a", "tests/test_h.py"),
        ("test_h.Sums.test_a", "tests/test_h.py"),
        ("test/h.test.js > adds", "test/h.test.js"),
        ("example.org/sums/calc TestAdd", "calc/calc_test.go"),
    ],
)
def test_ids_of_held_out_files_are_known_where_they_replace_files_of_the_base(name: str, path: str) -> None:
    assert further_runs.runs_held_out(seen(0, {name: "passed"}), seen(0, {name: "passed"}), [path], "")
    assert not further_runs.runs_held_out(seen(0, {name: "skipped"}), seen(0, {name: "passed"}), [path], "")


def test_held_out_checks_that_fail_say_nothing_of_themselves() -> None:
    failing = seen(1, {"secret_name": "failed"})
    ran = CheckRuns(delivered=(seen(0, GOOD),), base=(seen(1, BAD),), held_out=(failing,), held_out_base=(failing,))
    found = grading.grade(ran, WorkFacts())
    assert found.evidence is None
    assert (found.results[0].note, found.results[0].output) == ("held-out checks fail", "")


def test_held_out_tests_that_are_skipped_are_doubtful_and_not_named() -> None:
    base = seen(1, {"secret_name": "failed"})
    grade, reasons = graded(delivered=seen(0, GOOD), held_out=seen(0, {"secret_name": "skipped"}), held_out_base=base)
    assert grade == "doubtful"
    assert "secret_name" not in reasons


def test_held_out_files_do_not_prove_a_product_that_decides_itself() -> None:
    work = WorkFacts(decides=(("app.py",),))
    runs = {"delivered": seen(0), "base": seen(1), "held_out": seen(0), "held_out_base": seen(1)}
    assert graded(work, **runs)[0] == "unharmed"


# --- ids


def test_parameters_and_doctests_of_the_product_may_change() -> None:
    base = seen(0, {"t.py::f[1]": "passed", "t.py::f[2]": "passed", "app/calc.py::app.calc.add": "passed"})
    found = base_comparison.compare_ids(base, seen(0, {"t.py::f[1]": "passed"}))
    assert (found.against, len(found.remarks)) == ((), 1)
    found = base_comparison.compare_ids(base, seen(0, {"t.py::g": "passed"}))
    assert len(found.against) == 1
    base = seen(1, {"t.py::f[1]": "passed", "t.py::f[2]": "failed"})
    assert base_comparison.compare_ids(base, seen(0, {"t.py::f[1]": "passed"})).against  # it failed, and was not fixed


def test_a_test_that_moved_to_another_file_still_runs() -> None:
    base = seen(0, {"old_test.py::test_a": "passed"})
    now = seen(0, {"tests/new_test.py::test_a": "passed"})
    assert not base_comparison.compare_ids(base, now, renamed={}).against
    assert base_comparison.compare_ids(base, now).against
    assert base_comparison.compare_ids(base, seen(0, {"tests/new_test.py::test_b": "passed"}), renamed={}).against
    package = seen(0, {"calc.TestAdd/one": "passed"})
    assert not base_comparison.compare_ids(package, seen(0, {"pkg/calc.TestAdd/one": "passed"}), renamed={}).against
    assert base_comparison.compare_ids(package, seen(0, {"pkg/calc.TestAdd/two": "passed"}), renamed={}).against
    named = seen(0, {"old_test.py::test_b": "passed"})
    assert not base_comparison.compare_ids(base, named, renamed={"test_a": "test_b"}).against
    base, now = seen(0, {"test_a.Sums.test_x": "passed"}), seen(0, {"tests.test_a.Sums.test_x": "passed"})
    assert not base_comparison.compare_ids(base, now, renamed={}).against


def test_printed_counts_are_compared_where_no_reporter_saw_the_tests() -> None:
    def counted(passed: int | None) -> CheckObservation:
        result = CheckResult(command=CHECK, exit_code=0, seconds=1.0, tests=Tally("x", passed=passed))
        return CheckObservation(result=result)

    assert base_comparison.compare_ids(counted(3), counted(0)).against
    assert base_comparison.compare_ids(counted(3), counted(None)).against
    assert not base_comparison.compare_ids(counted(3), counted(2)).against
    assert base_comparison.compare_ids(counted(3), counted(2)).limits
    assert not base_comparison.compare_ids(counted(3), counted(4)).limits


def test_more_tests_than_are_kept_are_not_compared_by_name() -> None:
    found = base_comparison.compare_ids(seen(0, GOOD), seen(0, {"t.py::a": "passed"}, cut=True))
    assert (found.against, len(found.remarks)) == ((), 1)


def test_a_test_that_fails_although_the_check_passes_is_doubtful_unless_the_base_is_so_too() -> None:
    assert base_comparison.compare_ids(seen(1, BAD), seen(0, BAD)).against
    assert base_comparison.compare_ids(seen(0, GOOD), seen(0, BAD)).against
    assert not base_comparison.compare_ids(seen(0, BAD), seen(0, BAD)).against


# --- what a run did besides


def test_a_run_that_changes_files_of_tests_is_doubtful() -> None:
    for words in ("data/expected.json", "cases/2.json (removed)", "tests/test_a.py", "data/x.bin (mode)"):
        now = structs.replace(seen(0, GOOD), touched=(words,))
        grade, reasons = graded(delivered=now)
        assert grade == "doubtful", words
        assert words in reasons
        assert graded(delivered=now, base=structs.replace(seen(1, BAD), touched=(words,)))[0] == "unharmed"
        # The base came to no test at all: who changed the file is not known.
        assert graded(delivered=now, base=seen(2, {}))[0] == "unharmed"


def test_a_run_that_changes_other_data_proves_nothing() -> None:
    now = structs.replace(seen(0, GOOD), touched=("docs/words.txt",))
    assert graded(delivered=now)[0] == "unharmed"
    assert graded(WorkFacts(product=("docs/words.txt",)), delivered=now)[0] == "proven"


@pytest.mark.parametrize(
    "path",
    ["Cargo.lock", "web/package-lock.json", "go.sum", "gen/schema.go", "api/user_pb2.py", "src/parser.gen.ts", "dist/main.js",
     "lib/native.so", "shop/_version.py", "pkg/zz_generated.deepcopy.go"],
)  # fmt: skip
def test_a_run_may_write_locks_and_generated_code(path: str) -> None:
    assert graded(delivered=structs.replace(seen(0, GOOD), touched=(path,)))[0] == "proven"


def test_a_run_that_writes_source_proves_nothing() -> None:
    for work in WorkFacts(), WorkFacts(product=("src/parser.py",)):
        for base in seen(1, BAD), structs.replace(seen(1, BAD), touched=("src/parser.py",)):
            now = structs.replace(seen(0, GOOD), touched=("src/parser.py",))
            grade, reasons = graded(work, delivered=now, base=base)
            assert grade == "unharmed"
            assert reasons == "`pytest -q` changed files of the repository while it ran: src/parser.py"
    assert graded(delivered=structs.replace(seen(0, GOOD), touched=("src/parser.py (removed)",)))[0] == "unharmed"


def test_source_with_its_old_content_or_made_anew_at_the_base_is_not_changed() -> None:
    parser = ("src/parser.py",)
    work = WorkFacts(product=parser)
    now = structs.replace(seen(0, GOOD), touched=parser)
    assert graded(delivered=structs.replace(now, rewritten=parser))[0] == "proven"
    assert graded(work, delivered=structs.replace(now, rewritten=parser))[0] == "proven"
    assert graded(work, delivered=now, base=structs.replace(seen(1, BAD), rewritten=parser))[0] == "proven"
    assert graded(work, delivered=now, base=structs.replace(seen(1, BAD), generated=parser))[0] == "proven"
    tests = ("tests/test_a.py",)  # of a test the content in between counts, too
    assert graded(delivered=structs.replace(seen(0, GOOD), touched=tests, rewritten=tests))[0] == "doubtful"


def test_a_mark_of_generated_code_counts_unless_the_work_wrote_it() -> None:
    parser = ("src/parser.py",)
    now = structs.replace(seen(0, GOOD), touched=parser, generated=parser)
    assert graded(delivered=now)[0] == "proven"
    assert graded(WorkFacts(product=parser), delivered=now)[0] == "unharmed"
    assert graded(WorkFacts(product=(".gitattributes",)), delivered=now)[0] == "unharmed"


@pytest.mark.parametrize(
    ("text", "is_generated"),
    [
        (b"// Code generated by protoc-gen-go. DO NOT EDIT.\n", True), (b"# @generated by cargo\n", True), (b"/* Do not edit: generated */", True),
        (b"# This file is generated from rules.y\n", True), (b"# Autogenerated\n", True), (b"# Sums, and tables generated of them\n", False),
        (b"x = 1\n" * 1000 + b"# @generated\n", False), (b"", False),
    ],
)  # fmt: skip
def test_generated_code_says_so_in_its_first_lines(text: bytes, is_generated: bool) -> None:
    assert bool(side_effects.generated_files({"a.py": text}, "")) == is_generated


def test_attributes_of_the_repository_mark_generated_code() -> None:
    attributes = (
        "*.py text\napi/** linguist-generated=true\nlib/*.js -diff linguist-generated\nold.py -linguist-generated\n"
    )
    names = ("a.py", "api/b.py", "lib/c.js", "old.py", "d.py")
    assert side_effects.generated_files(dict.fromkeys(names, b""), attributes) == ("api/b.py", "lib/c.js")


def test_a_run_that_changes_the_program_of_its_check_is_doubtful() -> None:
    command = "sh ./check.sh"
    base, now = (
        CheckObservation(result=CheckResult(command=command, exit_code=code, seconds=1.0), report=Report(tests=tests))
        for code, tests in ((1, BAD), (0, GOOD))
    )
    grade, _ = graded(delivered=structs.replace(now, touched=("check.sh",)), base=base)
    assert grade == "doubtful"


def test_programs_left_running_prove_nothing() -> None:
    now = structs.replace(seen(0, GOOD), left=("sleep",))
    grade, reasons = graded(delivered=now)
    assert grade == "unharmed"
    assert "left programs running: sleep" in reasons
    assert graded(delivered=now, base=structs.replace(seen(1, BAD), left=("sleep",)))[0] == "unharmed"


# --- ids that are other ones in each run


def test_ids_that_differ_in_each_run_of_the_base_may_differ_here() -> None:
    base = seen(1, {"t.py::a[17]": "failed", "t.py::a[4]": "failed", "t.py::b": "passed"})
    now = seen(0, {"t.py::a[5]": "passed", "t.py::a[88]": "passed", "t.py::b": "passed"})
    again = seen(1, {"t.py::a[3]": "failed", "t.py::a[17]": "failed", "t.py::b": "passed"})  # one is 17 by chance
    assert base_comparison.may_be_unstable(base, now)
    assert graded(delivered=now, base=base_comparison.with_unstable(base, again))[0] == "proven"
    # Ids that the base always has are missed, and so is every one that nothing came for.
    assert graded(delivered=now, base=base_comparison.with_unstable(base, base))[0] == "unharmed"
    fewer = seen(0, {"t.py::a[5]": "passed", "t.py::b": "passed"})
    assert not base_comparison.may_be_unstable(base, fewer)
    assert graded(delivered=fewer, base=base_comparison.with_unstable(base, again))[0] == "doubtful"


def test_ids_without_parameters_can_differ_in_each_run_too() -> None:
    base, again = seen(1, {"t.js > sums > at 17:03": "failed"}), seen(1, {"t.js > sums > at 17:04": "failed"})
    now = seen(0, {"t.js > sums > at 17:05": "passed"})
    assert base_comparison.may_be_unstable(base, now)
    assert graded(delivered=now, base=base_comparison.with_unstable(base, again))[0] == "proven"
    assert graded(delivered=seen(0, {"other.js > at 17:05": "passed"}), base=base)[0] == "doubtful"


# --- what the base could not load


@pytest.mark.parametrize(
    ("stand_in", "test"),
    [
        ("tests/test_mul.py", "tests/test_mul.py::test_mul"),
        ("unittest.loader._FailedTest.tests.test_mul", "tests.test_mul.Mul.test_one"),
        ("setUpClass (tests.test_db.D)", "tests.test_db.D.test_one"),
        ("setUpModule (tests.test_db)", "tests.test_db.D.test_one"),
        ("test/mul.test.js", "test/mul.test.js > mul"),
        ("test/s.test.js > s", "test/s.test.js > s > adds"),
        ('test/s.js > s > "before all" hook for "adds"', "test/s.js > s > adds"),
    ],
)
def test_tests_that_the_base_could_not_load_are_fixed_when_they_pass(stand_in: str, test: str) -> None:
    base = seen(1, {stand_in: "failed"})
    assert graded(delivered=seen(0, {test: "passed"}), base=base)[0] == "proven"
    assert graded(delivered=seen(0, {test: "skipped"}), base=base)[0] == "doubtful"
    assert graded(delivered=seen(0, {"x" + test: "passed"}), base=base)[0] != "proven"
    more: dict[str, Outcome] = {test: "passed", test + "_more": "skipped"}
    assert graded(delivered=seen(0, more), base=base)[0] == "unharmed"


def test_a_test_whose_name_holds_an_answer_proves_nothing() -> None:
    base = seen(1, {"t.js > add gives -1": "failed", "t.js > b": "passed"})
    grade, reasons = graded(delivered=seen(0, {"t.js > add gives 3": "passed", "t.js > b": "passed"}), base=base)
    assert grade == "unharmed"
    assert "runs under another name" in reasons
    assert graded(delivered=seen(0, {"t.js > b": "passed"}), base=base)[0] == "doubtful"


def test_a_file_that_failed_at_the_base_outside_of_its_tests_proves_nothing() -> None:
    base = seen(1, {"a.test.js": "failed", "a.test.js > adds": "passed"})
    assert graded(delivered=seen(0, {"a.test.js > adds": "passed"}), base=base)[0] == "unharmed"
