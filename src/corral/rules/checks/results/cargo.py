"""What `cargo test` prints."""

from __future__ import annotations

import re

from corral.model import Tally
from corral.model.evidence import Outcome, Report

_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
_BEGIN = re.compile(r"^running \d+ tests?$", re.MULTILINE)
_TEST = re.compile(
    r"^test (.+?)(?: \(line \d+\))?(?: - (?:should panic|compile(?: fail)?))? \.\.\. (ok|FAILED|ignored)\b",
    re.MULTILINE,
)
_LIST = re.compile(r"^failures:\n((?:    \S.*\n)+)", re.MULTILINE)


def report(output: str) -> Report | None:
    """Return its tests by id; a program that begins and has no result ended early."""
    begun, ended = len(_BEGIN.findall(output)), len(_RESULT.findall(output))
    if not begun:
        return None
    words: dict[str, Outcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
    tests: dict[str, Outcome] = {}
    for name, end in _TEST.findall(output):
        if tests.get(name) != "failed":
            tests[name] = words[end]
    missing = f"{begun - ended} of {begun} test programs of `cargo test` began and never reached their own end"
    return Report(runners=("cargo",), tests=tests, sessions=begun, unfinished=(missing,) if begun > ended else ())


def read(output: str) -> Tally | None:
    """Add up the results of all its test programs."""
    results = _RESULT.findall(output)
    if not results:
        return None
    passed, failed, skipped = (sum(int(row[place]) for row in results) for place in range(3))
    failing = [line.strip() for names in _LIST.findall(output) for line in names.splitlines()]
    return Tally("cargo", passed, failed, skipped, tuple(dict.fromkeys(failing)))


READERS = ((50, read),)  #: with their places among all
REPORT = report
