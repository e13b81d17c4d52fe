"""What a model without tools answers, read as changes: whole files, search/replace blocks, unified diffs. Pure."""

from __future__ import annotations

import re

from msgspec import Struct, field

from corral.boxed.loop.patch import ModelHunk, hunks

HEADER = re.compile(r"^\W{0,8}(?:FILE|File|FILENAME|Filename)\s*:\s*(?P<path>.+?)\s*(?:\*/|-->|\*\*)?\s*$")
WANTED = re.compile(r"^\W{0,4}READ\s*:\s*(?P<path>\S+?)[`*]*\s*$")
FENCE = re.compile(r"^ {0,3}(?P<marks>`{3,}|~{3,})(?P<about>[^`]*)$")
PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
SEARCH, MIDDLE, REPLACE = (
    re.compile(r"^<{5,9} ?SEARCH\b"),
    re.compile(r"^={5,9}\s*$"),
    re.compile(r"^>{5,9} ?REPLACE\b"),
)


class WholeFileEdit(Struct, frozen=True):
    """A file as it shall be."""

    path: str
    text: str


class ReplaceEdit(Struct, frozen=True):
    """A piece of a file and what shall stand in its place."""

    path: str
    old: str
    new: str


class PatchEdit(Struct, frozen=True):
    """A unified diff of one file; `path` is None where it is deleted."""

    path: str | None
    was: str | None
    hunks: tuple[ModelHunk, ...]


Edit = WholeFileEdit | ReplaceEdit | PatchEdit


class ParsedAnswer(Struct):
    edits: list[Edit] = field(default_factory=list[Edit])
    wanted: list[str] = field(default_factory=list[str])  #: files it asks to see
    problems: list[str] = field(default_factory=list[str])


def parse(text: str) -> ParsedAnswer:
    """Read an answer; whatever is no change is talk."""
    answer = ParsedAnswer()
    _AnswerReader(text.replace("\r\n", "\n").split("\n"), answer).read()
    return answer


class _AnswerReader:
    def __init__(self, lines: list[str], answer: ParsedAnswer, path: str | None = None) -> None:
        self.lines, self.answer, self.at = lines, answer, 0
        self.path = path  # of the file spoken of
        self.is_fresh = False  # it was named just now: the next block is its content

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            wanted = WANTED.match(line)
            if SEARCH.match(line):
                self._replacement()
            elif self._is_diff(self.at):
                self._diff()
            elif FENCE.match(line):
                self._block()
            elif wanted:
                self.answer.wanted.append(_plain(wanted["path"]))
                self.at += 1
            else:
                self._talk(line)
                self.at += 1

    def _talk(self, line: str) -> None:
        named = _header(line)
        if named is None and line.strip():
            alone = _plain(line.strip().strip("#").strip().rstrip(":"))
            # A path alone on its line, right above a block, as some models write it.
            follows = self.at + 1 < len(self.lines) and _opens(self.lines[self.at + 1])
            named = alone if follows and PATH.fullmatch(alone) and re.search(r"[./]", alone) else None
        if named is not None:
            self.path, self.is_fresh = named, True

    def _block(self) -> None:
        content, self.at, is_closed = _fenced_block(self.lines, self.at)
        first = next((place for place, line in enumerate(content) if line.strip()), None)
        inner = _header(content[first]) if first is not None else None
        if inner is not None and first is not None:
            self.path, self.is_fresh, content = inner, True, content[first + 1 :]
        if any(SEARCH.match(line) for line in content) or _starts_diff(content):
            _AnswerReader(content, self.answer, self.path).read()
        elif self.is_fresh and self.path is not None:
            if is_closed:
                self.answer.edits.append(WholeFileEdit(self.path, "".join(f"{line}\n" for line in content)))
            else:
                self.answer.problems.append(f"{self.path}: the block is cut off; give the whole file again")
        self.is_fresh = False

    def _replacement(self) -> None:
        start = self.at + 1
        middle = _next(self.lines, start, MIDDLE)
        end = _next(self.lines, middle + 1, REPLACE) if middle is not None else None
        if middle is None or end is None:
            self.answer.problems.append("a SEARCH block has no ======= or no >>>>>>> REPLACE")
            self.at = len(self.lines)
            return
        if self.path is None:
            self.answer.problems.append("a SEARCH block belongs to no file: put `FILE: path` above it")
        else:
            old, new = self.lines[start:middle], self.lines[middle + 1 : end]
            self.answer.edits.append(
                ReplaceEdit(self.path, "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
            )
        self.at, self.is_fresh = end + 1, False

    def _is_diff(self, at: int) -> bool:
        return self.lines[at].startswith("--- ") and self.lines[at + 1 : at + 2] != [] and (
            self.lines[at + 1].startswith("+++ ")
        )  # fmt: skip

    def _diff(self) -> None:
        was, path = _side(self.lines[self.at][4:]), _side(self.lines[self.at + 1][4:])
        found, self.at = hunks(self.lines, self.at + 2)
        if not found:
            self.answer.problems.append(f"{path or was}: a diff without a readable hunk")
        elif path or was:
            self.answer.edits.append(PatchEdit(path, was, tuple(found)))
        self.is_fresh = False


def _header(line: str) -> str | None:
    found = HEADER.match(line)
    return _plain(found["path"]) if found else None


def _plain(text: str) -> str:
    return text.strip().strip("`*\"'").strip()


def _side(text: str) -> str | None:
    """Read one side of a diff's head: `a/src/x.py`, perhaps with a date, or /dev/null."""
    name = text.split("\t", maxsplit=1)[0].strip().strip('"')
    return None if name == "/dev/null" else re.sub(r"^[ab]/", "", name)


def _opens(line: str) -> bool:
    return bool(FENCE.match(line) or SEARCH.match(line))


def _starts_diff(content: list[str]) -> bool:
    heads = [
        line for line in content if line.strip() and not line.startswith(("diff ", "index ", "new file", "deleted "))
    ]
    return len(heads) > 1 and heads[0].startswith("--- ") and heads[1].startswith("+++ ")


def _next(lines: list[str], start: int, pattern: re.Pattern[str]) -> int | None:
    return next((place for place in range(start, len(lines)) if pattern.match(lines[place])), None)


def _fenced_block(lines: list[str], at: int) -> tuple[list[str], int, bool]:
    """Return a block's content, where reading goes on, and whether the block was closed.

    A file may hold blocks of its own: a fence that names a language opens one, a bare one closes the innermost.
    """
    opening = FENCE.match(lines[at])
    marks = opening["marks"] if opening else "```"
    depth = 1
    for place in range(at + 1, len(lines)):
        fence = FENCE.match(lines[place])
        if not fence or not fence["marks"].startswith(marks):
            continue
        depth += 1 if fence["about"].strip() else -1
        if depth == 0:
            return lines[at + 1 : place], place + 1, True
    return lines[at + 1 :], len(lines), False
