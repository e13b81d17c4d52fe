"""What jest prints, as text and with --json."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from corral.model import Tally

_TESTS = re.compile(r"^Tests:\s+(.*\d+ total)$", re.MULTILINE)
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
            found[file if found is broken else f"{file} › {bad[1].strip()}"] = None
    return _tally(counts["passed"], counts["failed"], counts["skipped"] + counts["todo"], [*failing], [*broken])


def read_json(output: str) -> Tally | None:
    for line in output.splitlines():
        if not line.startswith("{") or '"numTotalTests"' not in line:
            continue
        try:
            report = msgspec.json.decode(line, type=_Report)
        except msgspec.MsgspecError:
            continue
        names = [(_short(file, report), case) for file in report.test_results for case in file.assertion_results]
        failing = [f"{file} › {case.full_name}" for file, case in names if case.status == "failed"]
        broken = [
            _short(file, report)
            for file in report.test_results
            if file.status == "failed" and not any(case.status == "failed" for case in file.assertion_results)
        ]
        skipped = report.num_pending_tests + report.num_todo_tests
        return _tally(report.num_passed_tests, report.num_failed_tests, skipped, failing, broken)
    return None


def _tally(*counts: Any) -> Tally:
    passed, failed, skipped, failing, broken = counts
    return Tally("jest", passed, failed + len(broken), skipped, (*failing, *broken))


def _short(file: _File, report: _Report) -> str:
    """Name a file without the folder all of them lie in: that is another one in each checkout."""
    names = [each.name for each in report.test_results]
    folders = [name.split("/")[:-1] for name in names]
    common = 0
    while folders and all(len(each) > common and each[common] == folders[0][common] for each in folders):
        common += 1
    return "/".join(file.name.split("/")[common:])
