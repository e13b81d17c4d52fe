"""What a user decides by: change, checks, grade and cost of a run, in one line."""

from __future__ import annotations

from msgspec import Struct

from corral.model import Attempt, CheckResult, Run

MOST_CHECKS = 3


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


def _files(attempts: list[Attempt]) -> set[str]:
    return {path for each in attempts for path in each.files_changed}


def _mark(check: CheckResult) -> CheckMark:
    passed = check.tests.passed if check.tests else None
    tests = f"{passed}/{passed + check.tests.failed}" if check.tests and passed is not None else ""
    return CheckMark(command=check.command, passed=check.passed, tests=tests)
