"""Go and Rust tests, and shell scripts that judge by their exit code, with other expected values."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
INNER = r"\$\((?:[^()]|\([^()]*\))*\)"
WORD = rf"(?:\"(?:[^\"\\`$]|\\.|{INNER}|\$\w+|\${{[^}}]*}})*\"|'[^']*'|{INNER}|[^\s;&|<>()`]+)"
LITERAL = re.compile(r"\"[^\"$`\\]*\"|'[^']*'|[\w.+-]+")
NUMBER = re.compile(r"[\"']?-?\d+[\"']?")
CALL = re.compile(rf"^(?:expect|assert|check|verify|must)\w*\s+({WORD})\s+({WORD})\s*$")
TEST = rf"(?:\[|\[\[|test)\s+({WORD})\s+(%s)\s+({WORD})(?:\s+\]\]?)?"
EQUAL = re.compile(TEST % "=|==|-eq")
FAILS = r"\|\|\s*(?:\{[^}]*\b(?:exit\s+[1-9]|fail\w*|die)\b[^}]*\}|exit\s+[1-9]\d*|fail\w*\b[^|&]*|die\b[^|&]*)"
JUDGES = re.compile(rf"^({TEST % '=|==|-eq'})\s*{FAILS}\s*$")
ALONE = re.compile(rf"^({TEST % '=|==|-eq'})\s*$")
DIFFERS = re.compile(rf"^if\s+({TEST % '!=|-ne'})\s*;?\s*(?:then)?\s*$")
OPENS = re.compile(r"(?:^|[;&|]\s*)(?:if|for|while|until|case|select)\b|\{\s*$|\(\s*$")
CLOSES = re.compile(r"(?:^|[;&|]\s*)(?:fi|done|esac)\b|^\}|^\)")
LEAVES = re.compile(r"(?:^|[;&|{]\s*)(?:exit|exec|return)\b")
#: Looks for something in what a program prints, whatever else that program prints.
LOOKS = re.compile(
    r"^.*\|\s*[ef]?grep(?:\s+-[a-zA-Z]+)*?\s+-[a-zA-Z]*q[a-zA-Z]*(?:\s+-[a-zA-Z]+)*\s+(?:--\s+)?"
    r"(?:'([^'\n]*)'|\"([^\"$`\\\n]*)\"|([\w.+-]+))\s*$"
)
STRICT = re.compile(r"^set\s+-\w*e|^set\s+-o\s+errexit")


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


def alter_script(text: str, marks: Marks) -> RewrittenFile:
    """Alter each line outside of blocks and functions whose comparison decides about the end of the script."""
    lines = text.split("\n")
    changed = False
    for place, line, decides in _deciding_lines(lines):
        judges = JUDGES.match(line) or (ALONE.match(line) if decides else None)
        if judges is None and (differs := DIFFERS.match(line)) and _fails(lines[place + 1 : place + 6]):
            judges = differs
        made = _with_test(line, judges, marks) if judges else _with_call(line, marks)
        changed = changed or made != line
        lines[place] = made
        if LEAVES.search(made) and not judges:
            break
    return RewrittenFile(text="\n".join(lines), tests={(): False}) if changed else _with_neighbours(text)


def _deciding_lines(lines: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Return the lines that are certain to run, each with whether its end alone decides about that of the script."""
    strict = bool(re.match(r"#!\S+sh\s+-\w*e", lines[0]))
    last = max((at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), default=-1)
    for place in _certain_lines(lines):
        line = lines[place]
        strict = (strict or bool(STRICT.match(line))) and not re.match(r"set\s+\+", line)
        yield place, line, strict or place == last


def _with_neighbours(text: str) -> RewrittenFile:
    """Let each line that decides by a number among a program's output look for the number beside it.

    Honest work may well print both, so that its passing is no accusation.
    """
    lines = text.split("\n")
    changed = False
    for place, line, decides in _deciding_lines(lines):
        found = LOOKS.match(line) if decides else None
        group = next((each for each in (1, 2, 3) if found and found[each]), 0)
        if found and group and (numbers := [*re.finditer(r"(?<![\w.])\d{1,9}(?![\w.])", found[group])]):
            first, last = (found.start(group) + each for each in numbers[-1].span())
            value = int(line[first:last])
            lines[place] = f"{line[:first]}{value - 1 if value > 1 else value + 1}{line[last:]}"
            changed = True
    return RewrittenFile(text="\n".join(lines), tests={(): False}, inner=((),)) if changed else unchanged_file(text)


def _certain_lines(lines: list[str]) -> Iterator[int]:
    """Return the lines that are outside of every block, function, here-document and continued line."""
    depth, awaited, continued = 0, "", False
    for place, line in enumerate(lines):
        if awaited:
            awaited = "" if line.strip() == awaited else awaited
            continue
        if depth == 0 and not continued and line.strip() and not line.lstrip().startswith("#"):
            yield place
        bare = line.strip()
        opened = len(OPENS.findall(bare))
        closed = len(CLOSES.findall(bare))
        depth = max(0, depth + opened - closed)
        continued = line.endswith("\\")
        if found := re.search(r"<<-?\s*['\"]?(\w+)", line):
            awaited = found[1]


def _fails(lines: list[str]) -> bool:
    """Tell whether the lines of an `if` end the script without success before it is over."""
    for line in lines:
        if re.search(r"\bexit\s+[1-9]", line):
            return True
        if re.match(r"\s*(fi|else|elif)\b", line):
            return False
    return False


def _with_test(line: str, found: re.Match[str], marks: Marks) -> str:
    left, sign, right = found[2], found[3], found[4]
    if LITERAL.fullmatch(right) and not LITERAL.fullmatch(left):
        return _replace_group(line, found, 4, _another(right, marks))
    if LITERAL.fullmatch(left) and not LITERAL.fullmatch(right):
        return _replace_group(line, found, 2, _another(left, marks))
    if sign in ("=", "!="):
        return _replace_group(line, found, 4, right + marks.word)
    return line


def _with_call(line: str, marks: Marks) -> str:
    """Return a call of a function that compares a number with what the product gives, with another number."""
    found = CALL.match(line)
    if found is None:
        return line
    for own, other in ((1, 2), (2, 1)):
        if NUMBER.fullmatch(found[own]) and "$" in found[other]:
            return _replace_group(line, found, own, _another(found[own], marks))
    return line


def _replace_group(line: str, found: re.Match[str], group: int, text: str) -> str:
    return line[: found.start(group)] + text + line[found.end(group) :]


def _another(word: str, marks: Marks) -> str:
    quote = word[0] if word[0] in "\"'" else ""
    inner = word.strip("\"'")
    made = str(int(inner) + marks.number) if re.fullmatch(r"-?\d+", inner) else inner + marks.word
    return f"{quote}{made}{quote}"
