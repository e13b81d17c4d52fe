"""Old failures, new ones, chance, and tests that are gone."""

import pytest
from msgspec import structs

from corral.model import CheckObservation, CheckResult, Report, Sighting, Tally
from corral.rules.checks import base_comparison


def result(code: int = 1, *failing: str, passed: int = 3, **more: object) -> CheckResult:
    tests = Tally("pytest", passed, len(failing), 0, failing) if failing or code == 0 else None
    return CheckResult(command="pytest -q", exit_code=code, seconds=1.0, **{"tests": tests, **more})  # type: ignore[arg-type]


def before(code: int, *failing: str, passed: int = 3, flaky: bool = False) -> Sighting:
    tests = Tally("pytest", passed, len(failing), 0, failing) if failing or code == 0 else None
    return Sighting(exit_code=code, tests=tests, flaky=flaky)


@pytest.mark.parametrize(
    ("now", "then", "new", "old"),
    [
        (result(1, "a", "b"), before(1, "b"), ("a",), ("b",)),
        (result(1, "b"), before(1, "b", "c"), (), ("b",)),
        (result(1, "a"), before(0), ("a",), ()),
        (result(1), before(0), ("pytest -q",), ()),
        (result(1), before(1), (), ("pytest -q",)),
        (result(1, "a"), before(2), (), ("a",)),
        (result(0), before(1, "a"), (), ()),
    ],
)
def test_a_failure_is_old_if_the_base_failed_so_too(
    now: CheckResult, then: Sighting, new: tuple[str, ...], old: tuple[str, ...]
) -> None:
    found = base_comparison.compare_with_base(now, then)
    assert (found.new_failures, found.old_failures, found.before) == (new, old, then)
    assert found.passed == now.passed


def test_an_old_failure_is_a_failure_all_the_same() -> None:
    assert not base_comparison.compare_with_base(result(1, "a"), before(1, "a")).passed


def test_chance_of_the_work_itself_is_not_passed() -> None:
    flaky = base_comparison.once_more(result(1, "a"), result(0))
    judged = base_comparison.judge_flaky(base_comparison.compare_with_base(flaky, before(0)))
    assert (judged.flaky, judged.passed) == (True, False)
    assert "flaky" in judged.note


def test_chance_that_was_there_before_is_passed_and_told() -> None:
    flaky = base_comparison.once_more(result(1, "a"), result(0))
    judged = base_comparison.judge_flaky(base_comparison.compare_with_base(flaky, before(1, "a", flaky=True)))
    assert (judged.flaky, judged.passed, judged.again and judged.again.exit_code) == (True, True, 1)
    assert "here as at the base" in (base_comparison.comparison_text(judged) or "")


def test_the_tests_of_the_run_that_passed_count() -> None:
    first = CheckObservation(result=result(1, "a"), report=Report(tests={"a": "failed"}))
    second = CheckObservation(result=result(0), report=Report(tests={"a": "passed"}))
    seen = base_comparison.seen_once_more(first, second)
    judged = base_comparison.judge_flaky(base_comparison.compare_with_base(seen.result, before(1, "a", flaky=True)))
    assert judged.tests == second.result.tests
    now = structs.replace(seen, result=judged)
    assert base_comparison.compare_ids(now, now).against == ()
    assert base_comparison.seen_once_more(first, first).report == first.report


def test_what_fails_twice_is_no_chance() -> None:
    twice = base_comparison.once_more(result(1, "a"), result(1, "a"))
    assert (twice.flaky, twice.again and twice.again.exit_code) == (False, 1)
