"""What jest prints, as text and with --json."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, field

from corral.model import Tally

_TESTS = re.compile(r"^Tests:[ \t]+(.*\b\d+ total)$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (failed|skipped|todo|passed)")
_FILE = re.compile(r"^FAIL (\S+)")
_BAD = re.compile(r"^  ● (.+)$")
_NOT_RUN = "Test suite failed to run"


class _Case(Struct, rename="camel"):
    full_name: str = ""
    status: str = ""


class _File(Struct, rename="camel"):
    name: str = ""
    status: str = ""
    assertion_results: list[_Case] = field(default_factory=list[_Case])


class _Report(Struct, rename="camel"):
    num_passed_tests: int
    num_failed_tests: int
    num_pending_tests: int = 0
    num_todo_tests: int = 0
    test_results: list[_File] = field(default_factory=list[_File])


def read(output: str) -> Tally | None:
    """Read its last lines; a file that could not be run counts as a failure of its own."""
    totals = _TESTS.findall(output)
    if not totals:
        return None
    counts = dict.fromkeys(("failed", "skipped", "todo", "passed"), 0)
    for words in totals:
        for number, kind in _COUNT.findall(words):
            counts[kind] += int(number)
    failing: dict[str, None] = {}
    broken: dict[str, None] = {}
    file = ""
    for line in output.splitlines():
        if opened := _FILE.match(line):
            file = opened[1].removeprefix("./")
        elif bad := _BAD.match(line):
            found = broken if bad[1].strip() == _NOT_RUN else failing
            found[file if found is broken else f"{file} > {_plain(bad[1])}"] = None
    return _tally(counts["passed"], counts["failed"], counts["skipped"] + counts["todo"], [*failing], [*broken])


def read_json(output: str) -> Tally | None:
    for line in output.splitlines() if '"numTotalTests"' in output else ():
        if not line.startswith("{") or '"numTotalTests"' not in line:
            continue
        try:
            report = msgspec.json.decode(line, type=_Report)
        except msgspec.MsgspecError:
            continue
        folder = _folder([file.name for file in report.test_results])
        files = [(file.name[len(folder) :], file) for file in report.test_results]
        bad = [(name, case) for name, file in files for case in file.assertion_results if case.status == "failed"]
        named = {name for name, _ in bad}
        failing = [f"{name} > {case.full_name}" for name, case in bad]
        broken = [name for name, file in files if file.status == "failed" and name not in named]
        skipped = report.num_pending_tests + report.num_todo_tests
        return _tally(report.num_passed_tests, report.num_failed_tests, skipped, failing, broken)
    return None


def _tally(passed: int, failed: int, skipped: int, failing: Sequence[str], broken: Sequence[str]) -> Tally:
    return Tally("jest", passed, failed + len(broken), skipped, (*failing, *broken))


def _plain(name: str) -> str:
    return name.strip().replace(" \u203a ", " > ")  # the sign it puts between groups


def _folder(names: Sequence[str]) -> str:
    """Return the folder that all files lie in: it is another one in each checkout."""
    if not names:
        return ""
    low, high = min(names), max(names)
    same = next((place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[: low.rfind("/", 0, same) + 1]


READERS = ((30, read_json), (60, read))  #: with their places among all
