"""What a check's output says of its tests: how many passed, failed and were skipped, and which failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from corral.model import Tally
from corral.rules.checks.results import cargo, gotest, jest, junit, pytest, tap

MOST_FAILING = 200  #: names kept of one check
MOST_NAME = 300

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
#: The most telling first: what only one program prints is asked for before what several might.
_READERS: Sequence[Callable[[str], Tally | None]] = (
    junit.read,
    gotest.read_json,
    jest.read_json,
    pytest.read,
    cargo.read,
    jest.read,
    gotest.read,
    tap.read,
    tap.read_spec,
    pytest.read_unittest,
)


def tally(output: str, reports: Sequence[str] = ()) -> Tally | None:
    """Count the tests of a check, from the report files it wrote or else from what it printed; None: not known.

    The exit code decides whether a check passed. Counts are what its program says, and its program may be anybody's.
    """
    plain = _COLOURS.sub("", output)
    found = [counted for report in reports if (counted := junit.read(report))]
    if not found:
        found = [counted for read in _READERS if (counted := read(plain))][:1]
    return _bounded(_sum(found)) if found else None


def _sum(found: Sequence[Tally]) -> Tally:
    return Tally(
        format=found[0].format,
        passed=sum((each.passed for each in found if each.passed is not None), 0)
        if any(each.passed is not None for each in found)
        else None,
        failed=sum(each.failed for each in found),
        skipped=sum(each.skipped for each in found),
        failing=tuple(dict.fromkeys(name for each in found for name in each.failing)),
    )


def _bounded(found: Tally) -> Tally:
    names = tuple(name[:MOST_NAME] for name in sorted(found.failing)[:MOST_FAILING])
    return Tally(found.format, found.passed, found.failed, found.skipped, names)
