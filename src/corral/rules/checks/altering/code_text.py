"""Source text of languages with braces: strings and comments blanked out, calls and blocks by their brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from corral.rules.checks.altering.marks import Marks

COMMENTS = r"//[^\n]*|/\*[\s\S]*?\*/"
QUOTED = r'"(?:\\[\s\S]|[^"\\\n])*"'
SINGLE = r"'(?:\\[\s\S]|[^'\\\n])*'"
BACKTICKS = r"`(?:\\[\s\S]|[^`\\])*`"
REGEX = r"(?<=[=(,:!&|?{};\n])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*"
JAVASCRIPT = re.compile(f"{COMMENTS}|{QUOTED}|{SINGLE}|{BACKTICKS}|{REGEX}")
GO = re.compile(f"{COMMENTS}|{QUOTED}|`[^`]*`|'(?:\\\\.|[^'\\\\\\n])+'")
RUST = re.compile(f"{COMMENTS}|r#*\"[\\s\\S]*?\"#*|{QUOTED}|'(?:\\\\[^\\n]{{1,10}}?|[^'\\\\\\n])'")
OPEN, CLOSE = "([{", ")]}"
QUOTES = "\"'`"  #: what a string begins with: it stays an argument
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STRING = re.compile(r"\"[^\"\\\n]*\"|'[^'\\\n]*'")
ASSERTS = r"assert(?:\.strict)?(?:\.(?:equal|strictEqual|deepEqual|deepStrictEqual|ok|match|notEqual|notStrictEqual))?"
MATCHER = re.compile(r"\)((?:\s*\.\s*not)?\s*\.\s*to(?!Throw|HaveBeen|Reject)\w+\s*\()")
GO_IF = re.compile(r"\bif\s+(?:[^{\n;]*;\s*)?[^{\n;]*!=[^{\n;]*?(?=\s*\{)")
GO_LEAVES = re.compile(r"\breturn\s*[\n}]|\.Skip(?:f|Now)?\(")
GO_FAILS = re.compile(r"\.(Fatal|Error|Fail)|\bpanic\(|\breturn\s+(fmt\.Errorf|errors\.New)\(")


class TextEdit(Struct, frozen=True):
    """A piece of a text and what comes in its place."""

    start: int
    end: int
    text: str


def blank_out(text: str, hidden: re.Pattern[str]) -> str:
    """Return a text of the same length without comments and without the contents of strings."""
    return hidden.sub(lambda found: re.sub(r"[^\n]", "_" if found[0][0] in QUOTES else " ", found[0]), text)


def closing(code: str, start: int) -> int | None:
    """Return the place of the bracket that closes the one at `start`, in blanked text."""
    depth = 0
    for place in range(start, len(code)):
        if code[place] in OPEN:
            depth += 1
        elif code[place] in CLOSE:
            depth -= 1
            if depth == 0:
                return place
    return None


def arguments(code: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return where the arguments between two brackets begin and end, in blanked text."""
    found: list[tuple[int, int]] = []
    depth, begun = 0, start + 1
    for place in range(start + 1, end):
        if code[place] in OPEN:
            depth += 1
        elif code[place] in CLOSE:
            depth -= 1
        elif code[place] == "," and depth == 0:
            found.append((begun, place))
            begun = place + 1
    return found if not code[begun:end].strip() and found else [*found, (begun, end)]


def calls(code: str, names: str) -> Iterator[tuple[int, int, int]]:
    """Return the calls of functions that a pattern fits: where each begins, its opening and its closing bracket."""
    for found in re.finditer(rf"(?<![\w.$])(?:{names})\s*\(", code):
        end = closing(code, found.end() - 1)
        if end is not None:
            yield found.start(), found.end() - 1, end


def apply_edits(text: str, edits: list[TextEdit]) -> str:
    for each in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def another_literal(text: str, marks: Marks, *, typed: bool) -> str | None:
    """Return another number or text; `typed`: it must fit into the smallest type. None: it is neither."""
    word = text.strip()
    if NUMBER.fullmatch(word):
        number = float(word) if "." in word else int(word)
        change = marks.number if not typed else -1 if number >= 100 else 1
        return str(number + change)
    if STRING.fullmatch(word):
        return word[:-1] + marks.ending + word[-1]
    return None


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
