"""What `go test` prints, as text and with -json."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from corral.model import Tally
from corral.model.evidence import Outcome, Report

_TEST = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_VERBOSE = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$", re.MULTILINE)
_PACKAGE = re.compile(r"^(ok|FAIL)\s+(\S+)\s+(?:\(cached\)|[\d.]+s|\[(?:build|setup) failed\])")
#: The lines that may be one of these: a program may print millions of others.
_LINES = re.compile(r"^(?:[ \t]*--- (?:PASS|FAIL|SKIP): |(?:ok|FAIL)[ \t]|\?[ \t]).*", re.MULTILINE)
_NO_TESTS = re.compile(r"^\?\s+\S+\s+\[no test files\]$")


class _GoEvent(Struct):
    action: str = field(name="Action")
    package: str = field(name="Package", default="")
    test: str = field(name="Test", default="")


_DECODER = msgspec.json.Decoder(_GoEvent)


_OUTCOMES: Mapping[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def report(output: str) -> Report | None:
    """Return the tests that -v prints, by id; parts of a test belong to it."""
    ends = [(str(end[2]), str(end[1]).lower()) for end in _VERBOSE.finditer(output)]
    tests: dict[str, Outcome] = {name: _OUTCOMES[end] for name, end in ends if "/" not in name}
    return Report(runners=("go",), tests=tests, sessions=1) if tests else None


def read(output: str) -> Tally | None:
    """Read the text form; without -v it does not tell what passed."""
    results: dict[tuple[str, str], str] = {}
    waiting: dict[str, str] = {}
    packages: list[tuple[str, str]] = []
    for line in _LINES.findall(output):
        if test := _TEST.match(line):
            waiting[test[2]] = test[1].lower()
        elif package := _PACKAGE.match(line):
            packages.append((package[1], package[2]))
            results |= {(package[2], name): end for name, end in waiting.items()}
            if package[1] == "FAIL" and "fail" not in waiting.values():
                results[package[2], ""] = "fail"
            waiting.clear()
        elif _NO_TESTS.match(line):
            waiting.clear()
    if not packages:
        return None
    verbose = "=== RUN" in output or "--- PASS" in output
    counted = _count_results("go", results)
    return counted if verbose else msgspec.structs.replace(counted, passed=None)


def read_json(output: str) -> Tally | None:
    results: dict[tuple[str, str], str] = {}
    for line in output.splitlines() if '"Action"' in output else ():
        if not line.startswith("{") or '"Action"' not in line:
            continue
        try:
            said = _DECODER.decode(line)
        except msgspec.MsgspecError:
            continue
        if said.package and said.action in ("pass", "fail", "skip"):
            results[said.package, said.test] = said.action
    if not results:
        return None
    packages = {package for (package, name), end in results.items() if name and end == "fail"}
    whole = {key: end for key, end in results.items() if key[1] or (end == "fail" and key[0] not in packages)}
    return _count_results("go", whole)


def _count_results(name: str, results: Mapping[tuple[str, str], str]) -> Tally:
    """Count tests that hold no others: one that fails for a part of it is no second failure."""
    outer = {
        (package, "/".join(parts[:size]))
        for package, test in results
        for parts in [test.split("/")]
        for size in range(1, len(parts))
    }
    ends = [end for key, end in results.items() if key not in outer]
    failing = (f"{package}.{test}" if test else package for (package, test), end in results.items()
               if end == "fail" and (package, test) not in outer)  # fmt: skip
    return Tally(name, ends.count("pass"), ends.count("fail"), ends.count("skip"), tuple(failing))


READERS = ((20, read_json), (70, read))  #: with their places among all
REPORT = report
