"""The Test Anything Protocol, with subtests; and what `node --test` prints for users."""

from __future__ import annotations

import re

from corral.model import Tally
from corral.model.evidence import Outcome, Report

_TEST = re.compile(r"^(\s*)(not ok|ok)\b(?:\s+\d+)?(?:\s*-)?\s*(.*)")
_LEFT_OUT = re.compile(r"(?i)#\s*(?:skip|todo)\b")
_PLAN = re.compile(r"^[ \t]*1\.\.\d+(?:[ \t]*#.*)?$", re.MULTILINE)
#: The lines that may say anything: a program may print millions of others.
_LINES = re.compile(r"^[ \t]*(?:---|\.\.\.|1\.\.|(?:not )?ok\b).*", re.MULTILINE)
_WHOLE = re.compile(r"^1\.\.(\d+)(?:\s*#.*)?$", re.MULTILINE)
_FIRST = re.compile(r"^(?:not )?ok\b", re.MULTILINE)
_SPEC = re.compile(r"^ℹ (pass|fail|skipped|todo|cancelled) (\d+)$", re.MULTILINE)  # noqa: RUF001 -- as it prints it
_SPEC_BAD = re.compile(r"^✖ (.+) \([\d.]+m?s\)$", re.MULTILINE)


def report(output: str) -> Report | None:
    """Return its tests by id; fewer than planned is an early end."""
    found, plans = _tests(output), _WHOLE.findall(output)
    if not found or not plans:
        return None
    words: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    tests: dict[str, Outcome] = {}
    for name, end in found:
        if tests.get(name) != "failed":
            tests[name] = words[end]
    planned, ran = sum(map(int, plans)), len(_FIRST.findall(output))
    missing = (f"{ran} of the {planned} planned tests ran",) if ran < planned else ()
    return Report(runners=("tap",), tests=tests, sessions=len(plans), unfinished=missing)


def read(output: str) -> Tally | None:
    """Count tests that hold no others."""
    tests = _tests(output)
    if not tests:
        return None
    ends = [end for _, end in tests]
    failing = tuple(name for name, end in tests if end == "fail")
    return Tally("tap", ends.count("pass"), ends.count("fail"), ends.count("skip"), failing)


def _tests(output: str) -> list[tuple[str, str]]:
    """Return names and ends of tests that hold no others; without a plan it is no such text."""
    tests: list[tuple[int, str, str]] = []  # how deep, name, end
    planned = in_yaml = False
    for line in _LINES.findall(output) if _PLAN.search(output) else ():
        words = line.strip()
        if words == "---" or (in_yaml and words == "..."):
            in_yaml = words == "---"
        elif in_yaml:
            continue
        elif _PLAN.match(line):
            planned = True
        elif test := _TEST.match(line):
            left_out = _LEFT_OUT.search(test[3])
            title = test[3][: left_out.start() if left_out else None].rstrip()
            depth, end = len(test[1]), "skip" if left_out else "pass" if test[2] == "ok" else "fail"
            first = next((place for place in range(len(tests), 0, -1) if tests[place - 1][0] <= depth), 0)
            inner = tests[first:]
            tests[first:] = (
                [(depth, f"{title} > {name}", ended) for _, name, ended in inner]
                if inner
                else [(depth, title or f"test {len(tests) + 1}", end)]
            )
    return [(name, end) for _, name, end in tests] if planned else []


def read_spec(output: str) -> Tally | None:
    counts = {kind: int(number) for kind, number in _SPEC.findall(output)}
    if "pass" not in counts or "fail" not in counts:
        return None
    failing = _SPEC_BAD.findall(output.partition("✖ failing tests:")[2])
    return Tally(
        "node",
        counts["pass"],
        counts["fail"] + counts.get("cancelled", 0),
        counts.get("skipped", 0) + counts.get("todo", 0),
        tuple(dict.fromkeys(failing)),
    )


READERS = ((80, read), (90, read_spec))  #: with their places among all
REPORT = report
