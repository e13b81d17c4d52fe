"""Decisions, seen as tables: ids, retries, verdicts, what guards a check, prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model import Attempt, CheckResult, ErrorClass, Failure, RetryPolicy, Status
from corral.model.events import Ended
from corral.model.flow import Task
from corral.rules.checks import verdict as judge
from corral.rules.context import prompt
from corral.rules.schedule import agent_tries as retry
from corral.rules.text import names


@given(st.integers(1_790_000_000_000, 2_500_000_000_000), st.integers(1, 10_000), st.integers(0), st.integers(0))
def test_ids_sort_by_time(milliseconds: int, later: int, one: int, other: int) -> None:
    first, second = names.run_id(milliseconds, one), names.run_id(milliseconds + later, other)
    assert first < second
    assert len(first) == 12


def failed(kind: ErrorClass | None, status: Status = "failed", name: str = "r-1") -> Attempt:
    return Attempt(id=name, agent="a", status=status, error=Failure(kind, "") if kind else None)


@pytest.mark.parametrize(
    ("kind", "status", "by_default", "if_asked"),
    [
        ("overloaded", "failed", True, True),
        ("rate_limit", "failed", True, True),
        ("network", "failed", True, True),
        ("crash", "failed", True, True),
        ("check_failed", "failed", False, True),
        ("no_change", "failed", False, True),
        ("crash", "timed_out", False, True),
        ("auth", "failed", False, False),
        ("not_found", "failed", False, False),
        ("refused", "failed", False, False),
        (None, "done", False, False),
        (None, "stopped", False, False),
        (None, "over_budget", False, False),
    ],
)
def test_what_is_tried_again(kind: ErrorClass | None, status: Status, by_default: bool, if_asked: bool) -> None:
    tries = [failed(kind, status)]
    assert (retry.delay_seconds(tries, RetryPolicy(), None) is not None) is by_default
    assert (retry.delay_seconds(tries, RetryPolicy(), 2) is not None) is if_asked


def test_tries_end_and_waits_grow_to_a_limit() -> None:
    policy = RetryPolicy(most=10, delay_seconds=5)
    waits = [
        retry.delay_seconds([failed("network", name=f"r-{n}") for n in range(count)], policy, None)
        for count in range(1, 12)
    ]
    assert waits[-1] is None
    for count, wait in enumerate(waits[:-1]):
        whole = min(5 * 2**count, 300)
        assert wait is not None
        assert whole / 2 <= wait <= whole
    assert retry.delay_seconds([failed("network")], policy, 0) is None


@pytest.mark.parametrize(
    ("ended", "why", "status"),
    [
        (Ended(ok=True), "exited", None),
        (Ended(ok=True), "timeout", None),
        (Ended(ok=True), "stopped", "stopped"),
        (Ended(ok=False, error=Failure("auth", "no")), "exited", "failed"),
        (Ended(ok=False, status="over_budget"), "exited", "over_budget"),
        (None, "exited", "failed"),
        (None, "timeout", "timed_out"),
        (None, "idle", "timed_out"),
        (None, "flood", "failed"),
    ],
)
def test_the_agents_own_part(ended: Ended | None, why: str, status: Status | None) -> None:
    verdict = judge.of_agent(ended, why, "60 s")
    assert (verdict.status if verdict else None) == status


@pytest.mark.parametrize(("room", "kind"), [(True, "memory"), (False, "disk")])
def test_full_folders_that_are_memory_are_no_disk(room: bool, kind: str) -> None:
    crashed = judge.of_agent(None, "exited", "60 s")
    verdict = judge.of_limits(crashed, "OSError: [Errno 28] No space left on device", disk_has_room=room)
    assert verdict
    assert verdict.error
    assert (verdict.error.kind, f"[scope] {kind}_mb" in verdict.error.hint) == (kind, True)


def test_done_needs_all_three() -> None:
    task, ended = Task(prompt="x"), Ended(ok=True)
    worked = Attempt(id="r-1", agent="a", files_changed=("a.py",))
    idle = Attempt(id="r-1", agent="a")
    good = CheckResult(command="c", exit_code=0, seconds=0)
    bad = CheckResult(command="c", exit_code=1, seconds=0)
    noted = CheckResult(command="c", exit_code=0, seconds=0, note="only with changed tests")
    assert judge.of_work(task, worked, ended, [good]).status == "done"
    for checks in ([bad], [good, bad], [noted]):
        assert judge.of_work(task, worked, ended, checks).error.kind == "check_failed"  # type: ignore[union-attr]
    assert judge.of_work(task, idle, ended, []).error.kind == "no_change"  # type: ignore[union-attr]
    assert judge.of_work(task, idle, Ended(ok=True, denied=("Bash",)), []).error.kind == "denied"  # type: ignore[union-attr]
    assert judge.of_work(Task(prompt="x", read_only=True), idle, ended, []).status == "done"


def test_a_plain_task_reaches_the_agent_word_for_word() -> None:
    assert prompt.build(Task(prompt="Fix\n\n  it.")) == "Fix\n\n  it."


def test_the_next_try_hears_what_was_wrong() -> None:
    check = CheckResult(command="make", exit_code=2, seconds=1, output="E: two is not three")
    told = prompt.feedback(Attempt(id="r-1", agent="a", checks=(check,)))
    assert "`make` ended with 2" in told
    assert "two is not three" in told
