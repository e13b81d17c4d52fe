"""Text as people read it: syntax in colours, changed words marked, what is hidden made visible. Never executed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from markupsafe import Markup, escape
from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.util import ClassNotFound

Segments = list[tuple[str, str]]  #: class and text, of one line
MOST_CHARACTERS = 300_000  #: of one text that is coloured
MOST_LINE = 1_000  #: letters of one line that are shown
MOST_COLOURED_LINE = 1_000  #: a longer line is no code that a person wrote
MOST_SECONDS = 1.0
#: What a part of a program is to the eye, by how its kind begins.
CLASSES = {
    "Comment": "c", "Keyword": "k", "Literal.String": "s", "Literal.Number": "m", "Literal": "s", "Name.Function": "f",
    "Name.Class": "f", "Name.Tag": "t", "Name.Attribute": "t", "Name.Decorator": "b", "Name.Builtin": "b",
    "Name.Constant": "b", "Name.Exception": "b",
}  # fmt: skip
#: What turns the order of letters about, or is not to be seen at all: text must not look like another.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
NAMES = {"\r": "CR", "\x1b": "ESC", "\0": "NUL", "\x0c": "FF"}


def colour_lines(name: str, text: str) -> list[Segments]:
    """Return the lines of a text, each in parts that are of one kind."""
    rows = text.split("\n")
    lexer = _lexer(name)
    if lexer is None or len(text) > MOST_CHARACTERS or max(map(len, rows)) > MOST_COLOURED_LINE:
        return [[("", row)] for row in rows]
    until = time.monotonic() + MOST_SECONDS
    lines: list[Segments] = [[]]
    done = 0
    for place, kind, value in lexer.get_tokens_unprocessed(text):
        if time.monotonic() > until or place != done:  # a text that is made to keep us busy, or a lexer that slips
            break
        done = place + len(value)
        _add(lines, _class(str(kind)), value)
    if done < len(text):
        _add(lines, "", text[done:])
    return lines


def _add(lines: list[Segments], kind: str, value: str) -> None:
    first, *rest = value.split("\n")
    if first:
        lines[-1].append((kind, first))
    lines.extend([(kind, row)] if row else [] for row in rest)


@lru_cache(maxsize=64)
def _lexer(name: str) -> Lexer | None:
    try:
        found = find_lexer_class_for_filename(name.rpartition("/")[2].lower())
    except (ClassNotFound, ValueError):
        return None
    return found(stripnl=False, ensurenl=False) if found and issubclass(found, RegexLexer) else None


@lru_cache(maxsize=1024)
def _class(kind: str) -> str:
    return next((name for known, name in CLASSES.items() if kind.startswith(f"Token.{known}")), "")


def line_html(parts: Segments, marks: Sequence[tuple[int, int]] = ()) -> Markup:
    """Return a line as HTML: its parts in their colours, the marked letters as such."""
    out: list[str] = []
    place = 0
    for kind, text in _cut(parts):
        for piece, marked in _pieces(text, place, marks):
            shown = _escape_hidden(piece)
            shown = f'<span class="{kind}">{shown}</span>' if kind else shown
            out.append(f"<mark>{shown}</mark>" if marked else shown)
        place += len(text)
    more = sum(len(text) for _, text in parts) - MOST_LINE
    if more > 0:
        out.append(f'<span class="cut">… {more:,} more letters</span>')
    return Markup("".join(out))  # noqa: S704 -- every piece was escaped


def _cut(parts: Segments) -> Iterator[tuple[str, str]]:
    left = MOST_LINE
    for kind, text in parts:
        if left <= 0:
            return
        yield kind, text[:left]
        left -= len(text)


def _pieces(text: str, place: int, marks: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """Part a text that begins at `place` of its line where marks begin and end."""
    edges = {0, len(text), *(edge - place for mark in marks for edge in mark if 0 < edge - place < len(text))}
    ordered = sorted(edges)
    for start, end in pairwise(ordered):
        middle = place + start
        yield text[start:end], any(one <= middle < other for one, other in marks)


def _escape_hidden(text: str) -> str:
    if not HIDDEN.search(text):
        return str(escape(text))
    parts = HIDDEN.split(text)
    signs = [_sign(found) for found in HIDDEN.findall(text)]
    return "".join(str(escape(part)) + sign for part, sign in zip(parts, [*signs, ""], strict=True))


def _sign(message: str) -> str:
    return f'<span class="hid">{NAMES.get(message, f"U+{ord(message):04X}")}</span>'


def safe_path(path: str) -> str:
    """Return a file's name with nothing in it that hides or deceives."""
    plain = path.encode(errors="surrogateescape").decode(errors="replace")
    return (
        HIDDEN.sub(lambda found: f"⟨{NAMES.get(found.group(), f'U+{ord(found.group()):04X}')}⟩", plain)
        .replace("\n", "⟨LF⟩")
        .replace("\t", "⟨TAB⟩")
    )
