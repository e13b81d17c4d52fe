"""Read a unified patch as git writes it: files, hunks, lines; and lay old and new lines side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from msgspec import Struct, structs

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
ESCAPE = re.compile(r"\\([0-7]{3}|.)")
ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
Kind = Literal[" ", "-", "+"]
MOST_MARKED = 400  #: pairs of one block in which words are looked for
WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
MOST_WORDS = 160  #: comparing takes the square of it
LEAST_ALIKE = 0.35  #: below that nothing is marked: it is another line
Spans = tuple[tuple[int, int], ...]


class PatchLine(Struct, frozen=True, kw_only=True):
    """One line of a hunk; a number is None on the side that does not have it."""

    kind: Kind
    text: str
    old: int | None = None
    new: int | None = None
    ends: bool = True  #: False: the file stops here, without a line end
    marks: Spans = ()  #: the words of it that changed


class PatchHunk(Struct, frozen=True, kw_only=True):
    """Lines that belong together, and where they are on both sides; numbers count from 1."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    lines: tuple[PatchLine, ...]


class FilePatch(Struct, frozen=True, kw_only=True):
    """What a patch does to one file; a name is None on the side where there is no such file."""

    old: str | None
    new: str | None
    old_mode: str | None = None
    new_mode: str | None = None
    binary: bool = False
    hunks: tuple[PatchHunk, ...] = ()


Pair = tuple[PatchLine | None, PatchLine | None]


class PatchBlock(Struct, frozen=True, kw_only=True):
    """Neighbouring lines that are all the same on both sides, or all not."""

    changed: bool
    pairs: tuple[Pair, ...]


def parse(patch: str) -> tuple[FilePatch, ...]:
    """Return the files of a patch; only line feeds end lines, as for git."""
    starts: list[int] = []
    lines = patch.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    place = 0
    while place < len(lines):
        if lines[place].startswith("diff --git "):
            starts.append(place)
            place += 1
        elif match := HUNK.match(lines[place]):
            place = _end_of_hunk(lines, place, match)  # what lies in a hunk may look like anything
        else:
            place += 1
    return tuple(_file(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True))


def _counts(match: re.Match[str]) -> tuple[int, int, int, int]:
    old, old_count, new, new_count = match.group(1, 2, 3, 4)
    return int(old), int(old_count or 1) if old_count != "0" else 0, int(new), int(new_count) if new_count else 1


def _end_of_hunk(lines: Sequence[str], place: int, match: re.Match[str]) -> int:
    _, old_left, _, new_left = _counts(match)
    place += 1
    while place < len(lines) and (old_left > 0 or new_left > 0 or lines[place].startswith("\\")):
        old_left -= lines[place][:1] in ("-", " ", "")
        new_left -= lines[place][:1] in ("+", " ", "")
        place += 1
    return place


def _file(lines: Sequence[str]) -> FilePatch:
    head = next((place for place, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    header = _PatchHead(lines[:head])
    return FilePatch(
        old=header.old,
        new=header.new,
        old_mode=header.old_mode,
        new_mode=header.new_mode,
        binary=header.binary,
        hunks=tuple(_hunks(lines, head)),
    )


class _PatchHead:
    """What is before the first hunk."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.old, self.new = _names(lines[0].removeprefix("diff --git "))
        self.old_mode: str | None = None
        self.new_mode: str | None = None
        self.binary = False
        for line in lines[1:]:
            if line.startswith(("Binary ", "GIT ")):
                self.binary = True
            elif line.startswith(("--- ", "+++ ", "rename ", "copy ")):
                self._name(line)
            else:
                self._mode(line)

    def _name(self, line: str) -> None:
        if line.startswith("--- "):
            self.old = _side(line[4:])
        elif line.startswith("+++ "):
            self.new = _side(line[4:])
        else:
            _, end, name = line.split(" ", 2)
            if end == "from":
                self.old = _unquote(name)
            else:
                self.new = _unquote(name)

    def _mode(self, line: str) -> None:
        mode = line.rpartition(" ")[2]
        if line.startswith("new file mode "):
            self.old, self.new_mode = None, mode
        elif line.startswith("deleted file mode "):
            self.new, self.old_mode = None, mode
        elif line.startswith("old mode "):
            self.old_mode = mode
        elif line.startswith("new mode "):
            self.new_mode = mode
        elif line.startswith("index ") and line.count(" ") == 2:
            self.old_mode = self.new_mode = mode


def _names(rest: str) -> tuple[str | None, str | None]:
    """Return both names of a `diff --git` line; where they are not quoted they are the same: the middle parts them."""
    if rest.startswith('"'):
        end = next((place for place in range(1, len(rest)) if rest[place] == '"' and not _is_escaped(rest, place)), 0)
        return _side(rest[: end + 1]), _side(rest[end + 2 :])
    half = len(rest) // 2
    return _side(rest[:half]), _side(rest[half + 1 :])


def _is_escaped(text: str, place: int) -> bool:
    before = text[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _side(name: str) -> str | None:
    plain = _unquote(name.removesuffix("\t"))
    return None if plain == "/dev/null" else plain.partition("/")[2]


def _unquote(name: str) -> str:
    """Undo git's quoting: bytes as octal numbers, a few letters for others."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    out = b""
    last = 0
    inner = name[1:-1]
    for match in ESCAPE.finditer(inner):
        code = match.group(1)
        out += inner[last : match.start()].encode(errors="surrogateescape")
        out += bytes([int(code, 8) & 255]) if len(code) == 3 else bytes([ESCAPES.get(code, ord(code) & 255)])
        last = match.end()
    return (out + inner[last:].encode(errors="surrogateescape")).decode(errors="surrogateescape")


def _hunks(lines: Sequence[str], place: int) -> Iterator[PatchHunk]:
    while place < len(lines):
        match = HUNK.match(lines[place])
        if match is None:
            place += 1
            continue
        end = _end_of_hunk(lines, place, match)
        old, old_count, new, new_count = _counts(match)
        inner = tuple(_lines(lines[place + 1 : end], old, new))
        yield PatchHunk(
            old_start=old, old_count=old_count, new_start=new, new_count=new_count, heading=match.group(5), lines=inner
        )
        place = end


def _lines(lines: Sequence[str], old: int, new: int) -> Iterator[PatchLine]:
    for place, line in enumerate(lines):
        if line.startswith("\\"):
            continue
        ends = not lines[place + 1].startswith("\\") if place + 1 < len(lines) else True
        if line.startswith("-"):
            yield PatchLine(kind="-", text=line[1:], old=old, ends=ends)
        elif line.startswith("+"):
            yield PatchLine(kind="+", text=line[1:], new=new, ends=ends)
        else:
            yield PatchLine(kind=" ", text=line[1:], old=old, new=new, ends=ends)
        old += not line.startswith("+")
        new += not line.startswith("-")


def blocks(lines: Sequence[PatchLine]) -> tuple[PatchBlock, ...]:
    """Lay lines side by side: what went against what came in its place."""
    found: list[PatchBlock] = []
    gone: list[PatchLine] = []
    come: list[PatchLine] = []
    same: list[Pair] = []

    def flush() -> None:
        if gone or come:
            found.append(PatchBlock(changed=True, pairs=tuple(_mark_words(zip_longest(gone, come)))))
            gone.clear()
            come.clear()
        if same:
            found.append(PatchBlock(changed=False, pairs=tuple(same)))
            same.clear()

    for line in lines:
        if line.kind == " ":
            if gone or come:
                flush()
            same.append((line, line))
            continue
        if same or (line.kind == "-" and come):
            flush()
        (gone if line.kind == "-" else come).append(line)
    flush()
    return tuple(found)


def _mark_words(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for place, (old, new) in enumerate(pairs):
        if old and new and place < MOST_MARKED:
            before, after = changed_words(old.text, new.text)
            yield structs.replace(old, marks=before), structs.replace(new, marks=after)
        else:
            yield old, new


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return where the old line differs from the new one, and the reverse; nothing for lines that are not alike."""
    if old == new:
        return (), ()
    one, other = WORD.findall(old), WORD.findall(new)
    if len(one) > MOST_WORDS or len(other) > MOST_WORDS:
        return _ends(old, new)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if _alike(matcher, one, other) < LEAST_ALIKE:
        return (), ()
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    old_spans = [(start, end) for _, start, end, _, _ in steps if start < end]
    new_spans = [(start, end) for _, _, _, start, end in steps if start < end]
    return _letter_spans(one, old_spans), _letter_spans(other, new_spans)


def _alike(matcher: SequenceMatcher[str], one: list[str], other: list[str]) -> float:
    """Return how much of the longer line stays, counted in letters; white space says nothing."""
    kept = sum(
        len(word)
        for block in matcher.get_matching_blocks()
        for word in one[block.a : block.a + block.size]
        if not word.isspace()
    )
    longest = max(sum(len(word) for word in words if not word.isspace()) for words in (one, other))
    return kept / longest if longest else 1.0


def _letter_spans(words: list[str], spans: list[tuple[int, int]]) -> Spans:
    """Turn places of words into places of letters."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[start], starts[end]) for start, end in spans)


def _ends(old: str, new: str) -> tuple[Spans, Spans]:
    """Of very long lines only what lies between the same beginning and the same end."""
    most = min(len(old), len(new))
    head = next((place for place in range(most) if old[place] != new[place]), most)
    tail = next((place for place in range(most - head) if old[-1 - place] != new[-1 - place]), most - head)
    if head + tail < LEAST_ALIKE * max(len(old), len(new)):
        return (), ()
    spans = ((head, len(old) - tail),), ((head, len(new) - tail),)
    return spans[0] if spans[0][0][0] < spans[0][0][1] else (), spans[1] if spans[1][0][0] < spans[1][0][1] else ()
