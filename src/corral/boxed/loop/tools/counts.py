"""From what a test runner prints to sums: passed, failed, skipped."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

Sums = tuple[int, int, int]


def pytest(text: str) -> Sums:
    """Read `2 failed, 3 passed, 1 skipped, 1 error in 0.12s`."""
    lines = [
        line for line in text.splitlines() if re.search(r"\b(passed|failed|errors?|skipped)\b.* in [\d.]+ ?s", line)
    ]
    said = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}
    failed = said.get("failed", 0) + said.get("error", 0) + said.get("errors", 0)
    return said.get("passed", 0), failed, said.get("skipped", 0)


def unittest(text: str) -> Sums:
    """Read `Ran 5 tests` and `FAILED (failures=1, errors=1, skipped=1)`."""
    ran = _last(r"^Ran (\d+) tests?", text)
    said = {word: int(number) for word, number in re.findall(r"\b(failures|errors|skipped)=(\d+)", text)}
    failed, skipped = said.get("failures", 0) + said.get("errors", 0), said.get("skipped", 0)
    return max(ran - failed - skipped, 0), failed, skipped


def cargo(text: str) -> Sums:
    """Add up `test result: FAILED. 3 passed; 1 failed; 2 ignored;` of every test program."""
    rows = re.findall(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", text, re.MULTILINE)
    return cast("Sums", tuple(sum(int(row[place]) for row in rows) for place in range(3)))


def go(text: str) -> Sums:
    """Count the tests in the events of `go test -json`."""
    actions: Counter[str] = Counter()
    for line in text.splitlines():
        try:
            event: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "Test" in event:
            actions[str(cast("dict[str, Any]", event).get("Action"))] += 1
    return actions["pass"], actions["fail"], actions["skip"]


def npm(text: str) -> Sums:
    """Read the sums of jest, vitest, mocha and node's own runner."""
    lines = re.findall(r"^\s*Tests:?\s+(.*\d+ (?:passed|failed).*)$", text, re.MULTILINE)
    if lines:
        said = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])}
        return said.get("passed", 0), said.get("failed", 0), said.get("skipped", 0)
    if re.search(r"^\s*\d+ passing", text, re.MULTILINE):
        return (
            _last(r"^\s*(\d+) passing", text), _last(r"^\s*(\d+) failing", text), _last(r"^\s*(\d+) pending", text)
        )  # fmt: skip
    return _last(r"^\S? ?pass (\d+)$", text), _last(r"^\S? ?fail (\d+)$", text), _last(r"^\S? ?skipped (\d+)$", text)


def _last(pattern: str, text: str) -> int:
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


READERS: dict[str, Callable[[str], Sums]] = {
    "pytest": pytest, "unittest": unittest, "cargo": cargo, "go": go, "npm": npm,
}  # fmt: skip
