"""What a user decides by: change, checks, grade and cost of a run, in one line."""

from __future__ import annotations

from msgspec import Struct

from corral.frontends import run_text
from corral.model import Attempt, CheckResult, Run

MOST_CHECKS = 3
MOST_LINES = 20  #: of a check that failed


class CheckMark(Struct, frozen=True, kw_only=True):
    command: str
    passed: bool
    tests: str  #: `48/48`; empty where they are not counted


class DashboardRow(Struct, frozen=True, kw_only=True):
    """A run as a row shows it."""

    run: Run
    title: str
    agent: str = ""
    insertions: int = 0
    deletions: int = 0
    files: int = 0
    checks: tuple[CheckMark, ...] = ()
    more_checks: int = 0

    @property
    def can_merge(self) -> bool:
        return self.run.merge.status == "ready"


def outcome(run: Run, title: str) -> DashboardRow:
    """Return what is known of the result of a run: of its winners, or else of its last attempt with work."""
    won = [each for node in run.nodes for each in node.attempts if each.id == node.winner and each.commit]
    with_work = [each for node in run.nodes for each in node.attempts if each.commit]
    shown = won or with_work[-1:]
    checks = [_mark(check) for each in shown for check in each.checks]
    return DashboardRow(
        run=run,
        title=title,
        agent=", ".join(dict.fromkeys(each.agent for each in shown)),
        insertions=sum(each.insertions for each in shown),
        deletions=sum(each.deletions for each in shown),
        files=len(_files(shown)),
        checks=tuple(checks[:MOST_CHECKS]),
        more_checks=max(0, len(checks) - MOST_CHECKS),
    )


class FailingCheck(Struct, frozen=True, kw_only=True):
    """Why a run failed: the check that did not pass, and the end of what it printed."""

    command: str
    said: str
    node: str  #: empty where the run has one node


def failed_check(run: Run) -> FailingCheck | None:
    """Return the check that a run failed by; None where it failed by something else, or did not."""
    if run.status not in ("failed", "partial"):
        return None
    for node in run.nodes:
        last = node.attempts[-1] if node.attempts and node.status == "failed" else None
        if last is None or last.error is None or last.error.kind != "check_failed":
            continue
        check = next((each for each in last.checks if not each.passed), None)
        if check:
            said = "\n".join(run_text.last_lines(check, MOST_LINES))
            return FailingCheck(command=check.command, said=said, node=node.id if len(run.nodes) > 1 else "")
    return None


def _files(attempts: list[Attempt]) -> set[str]:
    return {path for each in attempts for path in each.files_changed}


def _mark(check: CheckResult) -> CheckMark:
    passed = check.tests.passed if check.tests else None
    tests = f"{passed}/{passed + check.tests.failed}" if check.tests and passed is not None else ""
    return CheckMark(command=check.command, passed=check.passed, tests=tests)
