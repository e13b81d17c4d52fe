"""Go and Rust tests with other expected values."""

from __future__ import annotations

import re

from corral.rules.checks.altering import code_text
from corral.rules.checks.altering.code_text import (
    TextEdit,
    another_literal,
    apply_edits,
    arguments,
    blank_out,
    calls,
    closing,
    go_failing_edits,
)
from corral.rules.checks.altering.marks import Marks, Name, RewrittenFile, Wanted, unchanged_file

GO_TEST = re.compile(r"(?m)^func (Test\w*)\((\w+) \*testing\.T\) \{")
GO_IF = re.compile(r"\bif\b[^{\n]*!=\s*([^{\n;&|]+?)\s*\{")
RUST_TEST = re.compile(r"#\[test\]\s*(?:pub\s+)?fn\s+(\w+)\s*\(\)[^{;]*\{")
RUST_MODULE = re.compile(r"(?m)\bmod\s+(\w+)\s*\{")


def go_names(text: str) -> list[Name]:
    return [(found[1],) for found in GO_TEST.finditer(blank_out(text, code_text.GO)) if found[2] != "_"]


def alter_go(text: str, wanted: Wanted, marks: Marks) -> RewrittenFile:
    """Alter one comparison that is certain to run in each test; else have the test fail at its end."""
    code = blank_out(text, code_text.GO)
    edits: list[TextEdit] = []
    tests: dict[Name, bool] = {}
    inner: list[Name] = []
    for found in GO_TEST.finditer(code):
        end = closing(code, found.end() - 1)
        if (found[1],) not in wanted or found[2] == "_" or end is None:
            continue
        value = _go_value(text, code, found.end(), end, marks)
        if value is None and (failing := go_failing_edits(code, found.end(), end)):
            edits += failing
            inner.append((found[1],))
            tests[found[1],] = False
            continue
        edits.append(
            value or TextEdit(found.end(), found.end(), f"\n\tdefer {found[2]}.Error({marks.word!r})".replace("'", '"'))
        )
        tests[found[1],] = value is not None and len(GO_IF.findall(code[found.end() : end])) == 1
    return RewrittenFile(text=apply_edits(text, edits), tests=tests, inner=inner) if tests else unchanged_file(text)


def _go_value(text: str, code: str, start: int, end: int, marks: Marks) -> TextEdit | None:
    """Return another literal for the first comparison that fails the test, if it is certain to run."""
    for found in GO_IF.finditer(text, start, end):
        before, close = code[start : found.start()], closing(code, found.end() - 1)
        if before.count("{") != before.count("}") or re.search(r"\breturn\b|\.Skip|\bgo\b|\bfor\b", before):
            return None
        if close is None or not re.search(r"\.(Fatal|Error|Fail)", code[found.end() : close]):
            continue
        other = another_literal(found[1], marks, typed=True)
        return TextEdit(found.start(1), found.end(1), other) if other else None
    return None


def rust_names(text: str) -> list[Name]:
    code = blank_out(text, code_text.RUST)
    return [name for name, _, _ in _rust_tests(code)]


def alter_rust(text: str, wanted: Wanted, marks: Marks) -> RewrittenFile:
    """Alter the first comparison of each test, if it is certain to run; else have the test fail at once."""
    code = blank_out(text, code_text.RUST)
    edits: list[TextEdit] = []
    tests: dict[Name, bool] = {}
    for name, start, end in _rust_tests(code):
        if name in wanted:
            value = _rust_value(text, code, start, end, marks)
            edits.append(value or TextEdit(start, start, f' assert!(std::env::args().count() == 0, "{marks.word}");'))
            tests[name] = value is not None and len(re.findall(r"\bassert\w*!|\bpanic!", code[start:end])) == 1
    return RewrittenFile(text=apply_edits(text, edits), tests=tests) if tests else unchanged_file(text)


def _rust_tests(code: str) -> list[tuple[Name, int, int]]:
    modules = [(found.start(), closing(code, found.end() - 1) or 0, found[1]) for found in RUST_MODULE.finditer(code)]
    found: list[tuple[Name, int, int]] = []
    for each in RUST_TEST.finditer(code):
        end = closing(code, each.end() - 1)
        if end is not None and "should_panic" not in code[max(0, each.start() - 80) : each.end()]:
            above = [name for first, last, name in modules if first < each.start() < last]
            found.append(((*above, each[1]), each.end(), end))
    return found


def _rust_value(text: str, code: str, start: int, end: int, marks: Marks) -> TextEdit | None:
    for first, opened, close in calls(code[:end], "assert_eq!"):
        if first < start:
            continue
        before, given = code[start:first], arguments(code, opened, close)
        if before.count("{") != before.count("}") or "return" in before or "?" in before or len(given) < 2:
            return None
        for place in (given[1], given[0]):
            piece = text[slice(*place)]
            if (other := another_literal(piece, marks, typed=True)) is not None:
                return TextEdit(place[0], place[1], piece.replace(piece.strip(), other))
        return None
    return None
