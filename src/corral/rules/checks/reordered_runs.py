"""Runs of some tests alone, and of tests in another order: what is asked of them, and what they show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.model import CheckObservation, TestOrder
from corral.rules.checks.altering import AlteredFiles
from corral.rules.checks.id_changes import stem

#: Test programs whose reporters can choose tests and their order.
ABLE = frozenset({"pytest", "unittest"})
MOST_PARAMETERS = 10  #: of one altered test function that are run
LEAST_SECONDS, SHARE = 0.3, 0.2  #: for which tests run in another order: at least, and of the time of the checks
WORDS = "has tests that pass only by chance, or only in their usual order"


def order_alone(altered: AlteredFiles, *, every: bool) -> TestOrder | None:
    """Return the order in which altered tests run alone; None: what else runs may decide. `every`: all parameters."""
    if not altered.tests or altered.scripts:
        return None
    return TestOrder(only=tuple(each.id for each in altered.tests), most=0 if every else MOST_PARAMETERS)


def reversed_order(ids: Iterable[str], runs: Sequence[CheckObservation], seconds: float) -> TestOrder | None:
    """Return the opposite order, files of these tests first; None: no reporter can change it, or there is no order."""
    able = [each.report for each in runs if each.report and ABLE & {*each.report.runners}]
    if not any(len(each.tests) > 1 for each in able):
        return None
    files = {_file(each): each for each in ids}
    return TestOrder(turned=True, first=tuple(files.values()), seconds=LEAST_SECONDS + SHARE * seconds)


def _file(test: str) -> str:
    return test.partition("::")[0] if "::" in test else stem(test).rpartition(".")[0]


def limits(now: CheckObservation, again: CheckObservation) -> list[str]:
    """Say which tests passed and fail in another order."""
    passed, ends = (each.report.tests if each.report else {} for each in (now, again))
    failed = [name for name, end in ends.items() if end == "failed" and passed.get(name) == "passed"]
    return [f"`{now.result.command}` {WORDS}: {', '.join(failed[:3])}{' ...' * (len(failed) > 3)}"] if failed else []
