"""A change as HTML: the list of its files, the tree of them, and the lines of one file side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from urllib.parse import parse_qsl, quote, urlencode

from markupsafe import Markup, escape
from msgspec import Struct
from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.util import ClassNotFound
from starlette.requests import Request

from corral.engine.views.changes import ChangeSelection, FileDiff, FileHunks, Fold, PatchBlock, PatchLine

MOST_OPEN = 40  #: files of a list that are open from the start
MOST_OPEN_LINES = 400  #: of a file that is
MOST_FOLD = 200  #: lines that one press opens
MOST_ROWS = 4_000  #: lines of one file that are laid
MOST_COMPARED = 4_000_000  #: lines of a text times lines of its base, in conflict
MODES = {"100755": "a program", "100644": "a plain file", "120000": "a link", "160000": "a submodule"}
Segments = list[tuple[str, str]]  #: class and text, of one line
MOST_CHARACTERS = 300_000  #: of one text that is coloured
MOST_LINE = 1_000  #: letters of one line that are shown
MOST_COLOURED_LINE = 1_000  #: a longer line is no code that a user wrote
MOST_SECONDS = 1.0
#: What a part of a program is to the eye, by how its kind begins.
TOKEN_CLASSES = {
    "Comment": "c", "Keyword": "k", "Literal.String": "s", "Literal.Number": "m", "Literal": "s", "Name.Function": "f",
    "Name.Class": "f", "Name.Tag": "t", "Name.Attribute": "t", "Name.Decorator": "b", "Name.Builtin": "b",
    "Name.Constant": "b", "Name.Exception": "b",
}  # fmt: skip
#: What turns the order of letters about, or is not to be seen at all: text must not look like another.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
HIDDEN_NAMES = {"\r": "CR", "\x1b": "ESC", "\0": "NUL", "\x0c": "FF"}


class FileRow(Struct, frozen=True, kw_only=True):
    """One file of a list."""

    number: int
    file: FileHunks
    shown: str
    notes: tuple[str, ...]
    address: str  #: of its lines
    open: bool


class FolderNode(Struct, kw_only=True):
    """One folder of the tree."""

    name: str
    folders: list[FolderNode] = []
    files: list[tuple[str, FileRow]] = []  #: name within the folder


def query_value(request: Request, name: str) -> str:
    """Return a value of the query as it was sent: names of files need not be UTF-8."""
    pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), errors="surrogateescape")
    return next((value for key, value in pairs if key == name), "")


def query(looked: ChangeSelection, **more: object) -> str:
    """Return whose change is looked at, and more, as an address carries it."""
    values = {"attempt": looked.attempt, "against": looked.against, **more}
    kept = {key: str(value) for key, value in values.items() if value is not None and value != ""}
    return urlencode(kept, quote_via=quote, errors="surrogateescape")


def rows(looked: ChangeSelection, files: Sequence[FileHunks], first: int = 0) -> list[FileRow]:
    """Return files as a list shows them; the first few are open unless they are long."""
    return [
        FileRow(
            number=number,
            file=file,
            shown=safe_path(file.path),
            notes=tuple(_notes(file)),
            address=f"/runs/{looked.run}/diff/file?" + query(looked, path=file.path, old=_old(file)),
            open=number - first < MOST_OPEN and file.lines <= MOST_OPEN_LINES,
        )
        for number, file in enumerate(files, first)
    ]


def _old(file: FileHunks) -> str:
    return file.old_path if file.old_path != file.path else ""


def _notes(file: FileHunks) -> list[str]:
    """Return in words what happened to a file besides its lines."""
    notes: list[str] = []
    if file.kind in ("added", "deleted"):
        notes.append("new" if file.kind == "added" else "deleted")
    if file.kind in ("renamed", "copied"):
        notes.append(f"{file.kind} from {safe_path(file.old_path)}")
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        notes.append(f"now {MODES.get(file.new_mode, file.new_mode)}")
    elif file.kind == "added" and file.new_mode != "100644":
        notes.append(MODES.get(file.new_mode or "", file.new_mode or ""))
    if file.binary:
        notes.append("not text")
    return notes


def tree(listed: Sequence[FileRow]) -> FolderNode:
    """Return files below their folders; a folder that holds nothing but another is on one line with it."""
    root = FolderNode(name="")
    known: dict[str, FolderNode] = {"": root}
    for row in listed:
        folder, _, name = row.shown.rpartition("/")
        _folder(known, folder).files.append((name, row))
    return _join_folders(root)


def _folder(known: dict[str, FolderNode], path: str) -> FolderNode:
    if path not in known:
        parent, _, name = path.rpartition("/")
        known[path] = FolderNode(name=name)
        _folder(known, parent).folders.append(known[path])
    return known[path]


def _join_folders(folder: FolderNode) -> FolderNode:
    while folder.name and not folder.files and len(folder.folders) == 1:
        only = folder.folders[0]
        folder = FolderNode(name=f"{folder.name}/{only.name}", folders=only.folders, files=only.files)
    folder.folders = [_join_folders(each) for each in folder.folders]
    return folder


# --- lines


def file_html(looked: ChangeSelection, change: FileDiff) -> Markup:
    """Return the lines of one file as HTML."""
    file = change.file
    old = _lines(file.old_path, change.old_text)
    new = _lines(file.path, change.new_text)
    out: list[str] = []
    left = MOST_ROWS
    for part in change.parts:
        if left <= 0:
            out.append('<p class="faint said">The rest is not shown here: it is too long. The patch has all of it.</p>')
            break
        if isinstance(part, Fold):
            out.append(fold(looked, file, part) if change.new_text is not None else '<div class="fold">⋯</div>')
        else:
            out.append(_block(part, old, new, left))
            left -= len(part.pairs)
    return Markup("".join(out))  # noqa: S704 -- every line was escaped


def unfolded_html(looked: ChangeSelection, change: FileDiff, left: Fold | None) -> Markup:
    """Return lines that were folded, and a fold for what still is."""
    html = file_html(looked, change)
    return html + fold(looked, change.file, left) if left else html


def fold(looked: ChangeSelection, file: FileHunks, part: Fold) -> Markup:
    address = f"/runs/{looked.run}/diff/lines?" + query(
        looked, path=file.path, old=_old(file), at=part.old, to=part.new, count=part.count
    )
    words = f"Show {min(part.count, MOST_FOLD)} of {part.count:,}" if part.count > MOST_FOLD else f"Show {part.count}"
    noun = "line that is" if part.count == 1 else "lines that are"
    return Markup(
        '<button type="button" class="fold" hx-get="{}" hx-swap="outerHTML" data-busy="reading…">'
        '↕ {} {} the same <span class="heading">{}</span></button>'
    ).format(address, words, noun, part.heading[:100])


def _lines(name: str, text: str | None) -> list[Segments] | None:
    return colour_lines(name, text) if text else None


def _block(block: PatchBlock, old: list[Segments] | None, new: list[Segments] | None, most: int) -> str:
    out = ['<div class="bk ch">' if block.changed else '<div class="bk">']
    for before, after in block.pairs[:most]:
        out.extend(
            (
                _cell("l", before, before.old if before else None, old),
                _cell("r", after, after.new if after else None, new),
            )
        )
    out.append("</div>")
    return "".join(out)


def _cell(side: str, line: PatchLine | None, number: int | None, known: list[Segments] | None) -> str:
    if line is None or number is None:
        return f'<div class="{side} no"></div>'
    parts = known[number - 1] if known and number <= len(known) else []
    if "".join(text for _, text in parts) != line.text:  # not text in UTF-8, or longer than what is coloured
        parts = [("", line.text)]
    kind = {"-": " del", "+": " ins"}.get(line.kind, "")
    end = "" if line.ends else '<span class="cut">no line end</span>'
    return f'<div class="{side}{kind}" data-n="{escape(number)}">{line_html(parts, line.marks)}{end}</div>'


def alone(name: str, text: str, base: str | None) -> Markup:
    """Return a whole text; where it differs from its base its lines are marked."""
    rows = text.split("\n")
    parts = colour_lines(name, text)[: MOST_ROWS // 2]
    fresh = _fresh(base.split("\n"), rows) if base is not None else frozenset[int]()
    out = ['<div class="bk">']
    for number, line in enumerate(parts[:-1] if text.endswith("\n") else parts, 1):
        out.append(f'<div class="r{" ins" if number - 1 in fresh else ""}" data-n="{number}">{line_html(line)}</div>')
    out.append("</div>")
    if len(rows) > len(parts):
        out.append(f'<p class="said faint">{len(rows) - len(parts):,} more lines are not shown.</p>')
    return Markup("".join(out))  # noqa: S704 -- every line was escaped


def _fresh(base: Sequence[str], rows: Sequence[str]) -> frozenset[int]:
    """Return which lines a text has that its base does not."""
    if len(base) * len(rows) > MOST_COMPARED:
        return frozenset()
    steps = SequenceMatcher(None, base, rows, autojunk=False).get_opcodes()
    return frozenset(place for kind, _, _, start, end in steps if kind != "equal" for place in range(start, end))


def piece(name: str, text: str) -> Markup:
    """Return a piece of a patch, whose lines begin with their signs."""
    rows = text.split("\n")[:MOST_FOLD]
    colours = colour_lines(name, "\n".join(row[1:] for row in rows))
    kinds = {"-": "del", "+": "ins"}
    cells = [
        f'<div class="r {kinds.get(row[:1], "")}">{line_html(parts)}</div>'
        for row, parts in zip(rows, colours, strict=True)
        if row
    ]
    return Markup('<div class="bk">{}</div>').format(Markup("".join(cells)))  # noqa: S704 -- every line was escaped


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
        _add_segment(lines, _class(str(kind)), value)
    if done < len(text):
        _add_segment(lines, "", text[done:])
    return lines


def _add_segment(lines: list[Segments], kind: str, value: str) -> None:
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
    return next((name for known, name in TOKEN_CLASSES.items() if kind.startswith(f"Token.{known}")), "")


def line_html(parts: Segments, marks: Sequence[tuple[int, int]] = ()) -> Markup:
    """Return a line as HTML: its parts in their colours, the marked letters as such."""
    out: list[str] = []
    place = 0
    for kind, text in _cut_segments(parts):
        for piece, marked in _split_segments(text, place, marks):
            shown = _escape_hidden(piece)
            shown = f'<span class="{kind}">{shown}</span>' if kind else shown
            out.append(f"<mark>{shown}</mark>" if marked else shown)
        place += len(text)
    more = sum(len(text) for _, text in parts) - MOST_LINE
    if more > 0:
        out.append(f'<span class="cut">… {more:,} more characters</span>')
    return Markup("".join(out))  # noqa: S704 -- every piece was escaped


def _cut_segments(parts: Segments) -> Iterator[tuple[str, str]]:
    left = MOST_LINE
    for kind, text in parts:
        if left <= 0:
            return
        yield kind, text[:left]
        left -= len(text)


def _split_segments(text: str, place: int, marks: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
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
    return f'<span class="hid">{HIDDEN_NAMES.get(message, f"U+{ord(message):04X}")}</span>'


def safe_path(path: str) -> str:
    """Return a file's name with nothing in it that hides or deceives."""
    plain = path.encode(errors="surrogateescape").decode(errors="replace")
    return (
        HIDDEN.sub(lambda found: f"⟨{HIDDEN_NAMES.get(found.group(), f'U+{ord(found.group()):04X}')}⟩", plain)
        .replace("\n", "⟨LF⟩")
        .replace("\t", "⟨TAB⟩")
    )
