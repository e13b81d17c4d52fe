"""What pytest and unittest print."""

from __future__ import annotations

import re

from corral.model import Tally

_KINDS = r"failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests passed|subtests failed"
_SUMMARY = re.compile(
    rf"^=*[ \t]*((?:\d+ (?:{_KINDS})(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:]+\))?[ \t]*=*$", re.MULTILINE
)
_COUNT = re.compile(rf"(\d+) ({_KINDS})")
_BAD = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_NAMES = "short test summary info"

_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s$", re.MULTILINE)
_ENDED = re.compile(r"^(?:OK|FAILED|NO TESTS RAN)(?: \(([^)\n]{0,300})\))?$", re.MULTILINE)
_BAD_CASE = re.compile(r"^(?:FAIL|ERROR): (\S+)(?: \((\S+)\))?", re.MULTILINE)


def read(output: str) -> Tally | None:
    """Read pytest's last lines; several runs of it are added up."""
    passed = failed = skipped = 0
    failing: list[str] = []
    after = 0
    for summary in _SUMMARY.finditer(output):
        for number, kind in _COUNT.findall(summary[1]):
            if kind in ("passed", "xpassed"):
                passed += int(number)
            elif kind in ("failed", "error", "errors"):
                failed += int(number)
            elif kind in ("skipped", "xfailed"):
                skipped += int(number)
        part = output[after : summary.start()]
        after = summary.end()
        if _NAMES in part:
            failing += _BAD.findall(part.rpartition(_NAMES)[2])
    return Tally("pytest", passed, failed, skipped, tuple(failing)) if after else None


def read_unittest(output: str) -> Tally | None:
    ran = [int(number) for number in _RAN.findall(output)]
    ended = _ENDED.findall(output)
    if not ran or not ended:
        return None
    counts = {"failures": 0, "errors": 0, "skipped": 0, "expected failures": 0, "unexpected successes": 0}
    for words in ended:
        for name, number in re.findall(r"([a-z ]+?)=(\d+)", words):
            counts[name.strip()] = counts.get(name.strip(), 0) + int(number)
    failed = counts["failures"] + counts["errors"] + counts["unexpected successes"]
    skipped = counts["skipped"] + counts["expected failures"]
    failing = [
        place if place.endswith(f".{name}") else f"{place}.{name}" if place else name
        for name, place in _BAD_CASE.findall(output)
    ]
    return Tally("unittest", max(0, sum(ran) - failed - skipped), failed, skipped, tuple(dict.fromkeys(failing)))


READERS = ((40, read), (100, read_unittest))  #: with their places among all
