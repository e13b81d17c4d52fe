"""Held-out files: whether a check ran them at all, and whether they fail at the base."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from corral.model import CheckObservation
from corral.model.evidence import Outcome
from corral.rules.checks.steering import roles

NOT_RUN = "no check ran the held-out files"
PATHS = re.compile(r"[\w./*?\[\]-]+")
BEHIND = (":", " ", ".", "/", "[")  #: what follows the name of a file or module in the id of a test


def runs_held_out(now: CheckObservation, without: CheckObservation, files: Sequence[str], text: str) -> bool:
    """Tell whether a check ran held-out files: by the ids of tests, or because it names or loads one of them.

    `without`: its run on the same tree without them; `text`: its command and the scripts that it runs.
    """
    tests = now.report.tests if now.report else {}
    if tests and now.report and not now.report.cut:
        if any(outcome in ("passed", "failed") for outcome in _held_out_tests(tests, without, files).values()):
            return True
        files = [each for each in files if not roles.is_test(each) or not roles.is_code(each)]
    loaded = {*(now.report.inside if now.report else ())} - {*(without.report.inside if without.report else ())}
    return any(PurePosixPath(path).stem in loaded or _is_named(path, text) for path in files)


def fail_before(
    now: CheckObservation, before: CheckObservation, without: CheckObservation, files: Sequence[str]
) -> bool:
    """Tell whether held-out tests fail at the base and pass now, where reporters name them; else the check does."""
    if now.report is None or not now.report.tests:
        return True
    theirs = [
        name for name, outcome in _held_out_tests(now.report.tests, without, files).items() if outcome == "passed"
    ]
    known: Mapping[str, Outcome] = before.report.tests if before.report else {}
    if not theirs:  # they are what other tests read
        return any(known.get(name) == "failed" for name in now.report.tests)
    return any(known.get(name, "failed") == "failed" for name in theirs)


def _held_out_tests(
    tests: Mapping[str, Outcome], without: CheckObservation, files: Sequence[str]
) -> dict[str, Outcome]:
    """Return the tests of held-out files: by the file in their ids, or because they are not there otherwise."""
    known = without.report.tests if without.report else {}
    return {name: outcome for name, outcome in tests.items() if name not in known or _is_of(name, files)}


def _is_of(name: str, files: Sequence[str]) -> bool:
    for path in files:
        pure = PurePosixPath(path)
        dotted = ".".join(pure.with_suffix("").parts)
        if name == path or name.startswith(
            tuple(f"{each}{mark}" for each in (path, dotted, pure.stem) for mark in BEHIND)
        ):
            return True
        if pure.name.endswith("_test.go") and re.search(rf"(^|/){re.escape(pure.parent.name)}\W", name):
            return True
    return False


def _is_named(path: str, text: str) -> bool:
    """Tell whether a command or script names a file, a folder of it, or a pattern that fits it."""
    pure = PurePosixPath(path)
    for word in PATHS.findall(text):
        plain = word.removeprefix("./").rstrip("/.")
        if plain in (path, pure.name) or (any(sign in plain for sign in "*?[") and _fits(path, plain)):
            return True
        if "/" in path and plain and path.startswith(f"{plain}/"):
            return True
    return (
        roles.is_code(path)
        and re.search(rf"\b(import|from|require|source)\b[^\n]*\b{re.escape(pure.stem)}\b", text) is not None
    )


def _fits(path: str, pattern: str) -> bool:
    return pattern.strip("*?/") != "" and (fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}"))
