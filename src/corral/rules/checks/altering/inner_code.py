"""Tests that judge in callbacks or loops, in languages with braces: these parts are made to fail."""

from __future__ import annotations

import re

from corral.rules.checks.altering.code_text import TextEdit, calls, closing
from corral.rules.checks.altering.marks import Marks

ASSERTS = r"assert(?:\.strict)?(?:\.(?:equal|strictEqual|deepEqual|deepStrictEqual|ok|match|notEqual|notStrictEqual))?"
MATCHER = re.compile(r"\)((?:\s*\.\s*not)?\s*\.\s*to(?!Throw|HaveBeen|Reject)\w+\s*\()")
GO_IF = re.compile(r"\bif\s+(?:[^{\n;]*;\s*)?[^{\n;]*!=[^{\n;]*?(?=\s*\{)")
GO_LEAVES = re.compile(r"\breturn\s*[\n}]|\.Skip(?:f|Now)?\(")
GO_FAILS = re.compile(r"\.(Fatal|Error|Fail)|\bpanic\(|\breturn\s+(fmt\.Errorf|errors\.New)\(")


def failing_edits(text: str, code: str, place: tuple[int, int], marks: Marks) -> list[TextEdit]:
    """Return edits by which each comparison of a JavaScript test throws once its values are known; `code`: blanked."""
    start, end = place
    thrown = f"(() => {{ throw new Error('{marks.word}'); }})()"
    spans = [(first, opened, close, close) for first, opened, close in calls(code[:end], ASSERTS)]
    for first, opened, close in calls(code[:end], "expect"):
        matcher = MATCHER.match(code, close)
        last = closing(code, matcher.end() - 1) if matcher else None
        if last is not None and last < end:
            spans.append((first, opened, close, last))
    found: list[TextEdit] = []
    for first, opened, close, last in spans:
        values = text[opened + 1 : close].strip().rstrip(",")
        outer = any(low < first < high for low, _, _, high in spans)
        if first >= start and not outer and "..." not in values:
            found.append(TextEdit(first, last + 1, f"void ({values}, {thrown})" if values else f"void {thrown}"))
    return found


def go_failing_edits(code: str, start: int, end: int) -> list[TextEdit]:
    """Return edits by which each comparison of a Go test holds that something is wrong, in blanked text."""
    if GO_LEAVES.search(code, start, end):
        return []  # it may rightly come to none of them
    found: list[TextEdit] = []
    for each in GO_IF.finditer(code, start, end):
        opened = code.find("{", each.end())
        close = closing(code, opened) if opened >= 0 else None
        if close is not None and GO_FAILS.search(code[opened:close]):
            found.append(TextEdit(opened, opened, "|| true "))
    return found
