"""JavaScript and TypeScript tests and judging scripts with other expected values."""

from __future__ import annotations

import re

from msgspec import Struct

from corral.rules.checks.altering import code_text
from corral.rules.checks.altering.code_text import (
    TextEdit,
    apply_edits,
    arguments,
    blank_out,
    calls,
    closing,
    failing_edits,
)
from corral.rules.checks.altering.marks import Marks, Name, RewrittenFile, Wanted, unchanged_file

TESTS, GROUPS = "test|it|specify", "describe|context|suite"
TITLE = re.compile(r"\s*(\"(?:[^\"\\\n])*\"|'(?:[^'\\\n])*'|`(?:[^`\\$])*`)\s*$")
ASSERTS = r"assert(?:\.strict)?\.(?:equal|strictEqual|deepEqual|deepStrictEqual)"
EXPECTS = re.compile(r"\)\s*\.(?:toBe|toEqual|toStrictEqual)\s*\(")
FUNCTION = re.compile(r"(async\s+)?(?:\([^()]*\)|\w+)\s*=>\s*|(async\s+)?function\s*\w*\s*\([^()]*\)\s*(?=\{)")
#: Judges in a way that we do not alter.
OTHERS = re.compile(r"\bassert\b|\bexpect\b|\bfail\b|\bthrow\b|\bcheck\w*\(|\bverify\w*\(")
ENDS = re.compile(r"process\s*\.\s*(exit|reallyExit|abort|exitCode)|process\[")


class _Test(Struct, frozen=True):
    """A test in the text: its name, and its function's body."""

    name: Name
    start: int
    end: int
    braces: bool  #: the body is a block, else one expression


def test_names(text: str) -> list[Name]:
    return [each.name for each in tests_of(text, blank_out(text, code_text.JAVASCRIPT))]


def alter_tests(text: str, wanted: Wanted, marks: Marks) -> RewrittenFile:
    """Alter the tests of these names."""
    code = blank_out(text, code_text.JAVASCRIPT)
    edits: list[TextEdit] = []
    tests: dict[Name, bool] = {}
    deeper: list[Name] = []
    for each in tests_of(text, code):
        if each.name in wanted:
            inner = _comparisons(text, code, each, marks)
            if not inner and (failing := failing_edits(text, code, (each.start, each.end), marks)):
                edits += failing
                tests[each.name] = False
                deeper.append(each.name)
                continue
            tests[each.name] = bool(inner) and _all_of(code[each.start : each.end], len(inner))
            body = apply_edits(text[each.start : each.end], [_move_edit(one, -each.start) for one in inner])
            body = body if each.braces or inner else f"{body};"
            edits.append(TextEdit(each.start, each.end, _wrap_body(body, marks, braces=each.braces)))
    return RewrittenFile(text=apply_edits(text, edits), tests=tests, inner=deeper) if tests else unchanged_file(text)


def alter_script(text: str, marks: Marks) -> RewrittenFile:
    """Alter a program that judges by its exit code, and comes to its own end."""
    code = blank_out(text, code_text.JAVASCRIPT)
    if ENDS.search(code) or "node:test" in text or re.search(rf"(?<![\w.])(?:{TESTS}|{GROUPS})\s*\(", code):
        return unchanged_file(text)
    if re.search(r"\basync\b|\.then\(", code) and "catch" not in code:  # its end comes before what judges
        failing = failing_edits(text, code, (0, len(code)), marks)
        return (
            RewrittenFile(text=apply_edits(text, failing), tests={(): False}, inner=[()])
            if failing
            else unchanged_file(text)
        )
    inner = _comparisons(text, code, _Test((), 0, len(text), braces=True), marks)
    if not inner:
        return unchanged_file(text)
    head = f"globalThis.{marks.variable} = [];\n"
    first = text.find("\n") + 1 if text.startswith("#!") else 0
    body = apply_edits(text, [*inner, TextEdit(first, first, head)])
    end = f"\nif (!{marks.variable}.length) throw new Error('{marks.word}');\n"
    return RewrittenFile(text=body + end, tests={(): _all_of(code, len(inner))})


def _move_edit(edit: TextEdit, by: int) -> TextEdit:
    return TextEdit(edit.start + by, edit.end + by, edit.text)


def _all_of(code: str, known: int) -> bool:
    """Tell whether nothing else judges than what was altered: each comparison has one word of its own."""
    return len(OTHERS.findall(re.sub(r"(?m)^.*(?:\brequire\(|^import\b).*$", "", code))) == known and not re.search(
        r"\breturn\b|\bif\b|\bcatch\b|===|!==", code
    )


def _wrap_body(body: str, marks: Marks, *, braces: bool) -> str:
    """Have a body fail in every case but that an altered comparison held in it."""
    end = f"finally {{ if (!{marks.variable}.length) throw new Error('{marks.word}'); }}"
    inner = f" const {marks.variable} = []; try {{ {body}\n}} {end} "
    return inner if braces else f"{{{inner}}}"


def tests_of(text: str, code: str) -> list[_Test]:
    groups = [
        (start, end, title)
        for start, opened, end in calls(code, GROUPS)
        if (title := _title(text, code, opened, end)) is not None
    ]
    found: list[_Test] = []
    for start, opened, end in calls(code, TESTS):
        title = _title(text, code, opened, end)
        body = _body(code, opened, end)
        if title is not None and body is not None:
            above = [name for first, last, name in groups if first < start < last]
            found.append(_Test((*above, title), *body))
    names = [each.name for each in found]
    return [each for each in found if names.count(each.name) == 1]


def _title(text: str, code: str, opened: int, end: int) -> str | None:
    first = arguments(code, opened, end)[0]
    known = TITLE.match(text[slice(*first)])
    return known[1][1:-1] if known else None


def _body(code: str, opened: int, end: int) -> tuple[int, int, bool] | None:
    """Return where the function of a test begins and ends, and whether it is a block."""
    for first, last in arguments(code, opened, end)[1:]:
        start = first + len(code[first:last]) - len(code[first:last].lstrip())
        found = FUNCTION.match(code, start, last)
        if found is None:
            continue
        if code[found.end() : found.end() + 1] == "{":
            close = closing(code, found.end())
            return (found.end() + 1, close, True) if close is not None else None
        return found.end(), last, False
    return None


def _comparisons(text: str, code: str, test: _Test, marks: Marks) -> list[TextEdit]:
    """Return edits that give each comparison of a test another value, and note where it holds all the same."""
    found: list[TextEdit] = []
    for start, opened, end in calls(code[: test.end], ASSERTS):
        given = arguments(code, opened, end)
        if start >= test.start and len(given) >= 2:
            found += _edit(text, code, (start, end), given[1], marks, test)
    for start, opened, close in calls(code[: test.end], "expect"):
        matcher = EXPECTS.match(code, close)
        end = closing(code, matcher.end() - 1) if matcher else None
        if start >= test.start and matcher and end is not None and code[opened + 1 : close].strip():
            found += _edit(text, code, (start, end), (matcher.end(), end), marks, test)
    return found


def _edit(
    text: str, code: str, whole: tuple[int, int], expected: tuple[int, int], marks: Marks, test: _Test
) -> list[TextEdit]:
    start, end = whole
    before = code[test.start : start].rstrip(" \t")
    waits = before.endswith("await")
    before = before.removesuffix("await").rstrip()
    same_line = "\n" not in code[test.start + len(before) : start]
    if before and before[-1] not in "{};" and (same_line or before[-1] in "=>(,?:&|+[" or not test.braces):
        return []
    after = code[end + 1 : test.end].lstrip(" \t")
    if after and after[0] not in ";\n}":
        return []
    value = text[slice(*expected)]
    other = code_text.another_literal(value, marks, typed=False) or (
        "((e) => typeof e === 'number' && Math.abs(e) < 1e6 ? e + "
        f"{marks.number} : typeof e === 'string' ? e + '{marks.ending}' : [e, {marks.number}])({value})"
    )
    blank = " " if value.startswith(" ") else ""
    call = text[start : expected[0]] + blank + other + text[expected[1] : end + 1]
    first = test.start + len(before) if waits else start
    call = f"await {call}" if waits else call
    return [TextEdit(first, end + 1, f" try {{ {call}; {marks.variable}.push(1); }} catch {{}} ")]
