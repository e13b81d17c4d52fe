"""What a check's output says of its tests: how many passed, failed and were skipped, and which failed."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType

import msgspec

from corral.model import Tally
from corral.model.evidence import Report
from corral.rules.checks.results import junit

GROUP = "corral.check_readers"  #: the entry points of readers that other packages bring
MOST_FAILING = 200  #: names kept of one check
MOST_NAME = 300

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
Reader = Callable[[str], Tally | None]
ReportReader = Callable[[str], Report | None]


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Return the files of this folder, each of which reads what one family of test programs prints."""
    return tuple(importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))


@cache
def _readers() -> tuple[Reader, ...]:
    """Return the readers of these files: each names its own in `READERS`, with their places.

    A lower place is asked first: what only one program prints comes before what several might.
    """
    found: list[tuple[int, Reader]] = [each for module in _modules() for each in getattr(module, "READERS", ())]
    return tuple(reader for _, reader in sorted(found, key=lambda each: each[0]))


@cache
def _foreign_readers() -> tuple[Reader, ...]:
    """Return the readers of other packages; one that cannot be loaded is named by `corral plugins ls`."""
    from importlib import metadata  # noqa: PLC0415 -- slow to load: only for output that nothing of ours can read

    found: list[Reader] = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda each: each.name):
        with contextlib.suppress(Exception):
            found.append(point.load())
    return tuple(found)


def _read_foreign(plain: str) -> Tally | None:
    """Ask the readers of other packages; one that fails, or gives something else, has read nothing."""
    for read in _foreign_readers() if plain.strip() else ():
        with contextlib.suppress(Exception):
            counted = msgspec.convert(msgspec.to_builtins(read(plain)), Tally | None)
            if counted is not None and min(counted.passed or 0, counted.failed, counted.skipped) >= 0:
                return counted
    return None


def report_readers() -> tuple[ReportReader, ...]:
    """Return the functions of these files that find tests by their ids in output: each file names its own `REPORT`."""
    return tuple(module.REPORT for module in _modules() if hasattr(module, "REPORT"))


def tally(output: str, reports: Sequence[str] = ()) -> Tally | None:
    """Count the tests of a check, from the report files it wrote or else from what it printed; None: not known.

    The exit code decides whether a check passed. Counts are what its program says, and its program may be anybody's.
    """
    plain = _COLOURS.sub("", output)
    found = [counted for report in reports if (counted := junit.read(report))]
    if not found:
        found = [counted for read in _readers() if (counted := read(plain))][:1]
    if not found and (foreign := _read_foreign(plain)):
        found = [foreign]
    return _bound_names(_sum(found)) if found else None


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


def _bound_names(found: Tally) -> Tally:
    names = tuple(name[:MOST_NAME] for name in sorted(found.failing)[:MOST_FAILING])
    return Tally(found.format, found.passed, found.failed, found.skipped, names)
