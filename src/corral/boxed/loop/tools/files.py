"""Tools for files: read, write, edit, list, search."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Generator
from typing import Annotated

from msgspec import Meta, Struct

from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

MOST_BYTES = 20 << 20
MOST_LISTED = 1000
MOST_FOUND = 200
SEARCH_SECONDS = 20.0
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}

Path_ = Annotated[str, Meta(description="of a file, relative to the workspace")]


class ReadFileArguments(Struct):
    """Read a text file, or look at an image. Lines are counted from 1."""

    path: Path_
    first_line: Annotated[int, Meta(description="where to begin", ge=1)] = 1
    last_line: Annotated[int, Meta(description="where to end; 0: the end of the file", ge=0)] = 0


class WriteFileArguments(Struct):
    """Write a whole file; folders are made as needed."""

    path: Path_
    content: str


class EditFileArguments(Struct):
    """Replace a piece of a file by another. The old piece must occur exactly once: give enough lines around it."""

    path: Path_
    old: Annotated[str, Meta(description="the piece as it is in the file, with its indentation")]
    new: Annotated[str, Meta(description="what to put in its place")]


class ListFilesArguments(Struct):
    """List files below a folder; what git ignores is left out."""

    path: Annotated[str, Meta(description="a folder, relative to the workspace")] = "."


class SearchFilesArguments(Struct):
    """Find lines by a regular expression (Python's); what git ignores is left out."""

    pattern: str
    path: Annotated[str, Meta(description="a file or folder to stay in")] = "."
    ignore_case: bool = False


def read(place: LoopWorkspace, asked: ReadFileArguments, most: int) -> LoopToolResult:
    path = place.inside(asked.path)
    if path.is_dir():
        raise ToolRefused(f"{asked.path!r} is a folder: list it")
    if path.stat().st_size > MOST_BYTES:
        raise ToolRefused(f"{asked.path!r} has more than {MOST_BYTES >> 20} MB")
    data = path.read_bytes()
    kind = IMAGES.get(path.suffix.lower())
    if kind:
        return LoopToolResult(content={"path": place.name(path), "image": kind, "bytes": len(data)}, image=(data, kind))
    if b"\0" in data[:8000]:
        raise ToolRefused(f"{asked.path!r} is not text")
    lines = data.decode(errors="replace").splitlines(keepends=True)
    chosen = lines[asked.first_line - 1 : asked.last_line or None]
    text: list[str] = []
    size = 0
    for line in chosen:
        size += len(line)
        if text and size > most:
            break  # whole lines: the model can ask for the next ones
        text.append(line)
    last = asked.first_line - 1 + len(text)
    content = {"path": place.name(path), "first_line": asked.first_line, "last_line": last, "lines": len(lines)}
    return LoopToolResult(content={**content, "text": "".join(text)})


def write(place: LoopWorkspace, asked: WriteFileArguments, most: int) -> LoopToolResult:  # noqa: ARG001
    path = place.writable_path(asked.path)
    is_new = not path.exists()
    place.write(path, asked.content)
    name = place.name(path)
    lines = len(asked.content.splitlines())
    return LoopToolResult(content={"path": name, "created": is_new, "lines": lines}, changed=(name,))


def edit(place: LoopWorkspace, asked: EditFileArguments, most: int) -> LoopToolResult:  # noqa: ARG001
    path = place.writable_path(asked.path)
    text = path.read_bytes().decode(errors="surrogateescape")
    count = text.count(asked.old) if asked.old else 0
    if count != 1:
        words = "is not in the file" if count == 0 else f"is in the file {count} times"
        raise ToolRefused(f"the old piece {words}: read it again, and give a piece that occurs exactly once")
    line = text[: text.index(asked.old)].count("\n") + 1
    path.write_bytes(text.replace(asked.old, asked.new).encode(errors="surrogateescape"))
    name = place.name(path)
    return LoopToolResult(content={"path": name, "line": line}, changed=(name,))


def list_files(place: LoopWorkspace, asked: ListFilesArguments, most: int) -> LoopToolResult:  # noqa: ARG001
    names = _below(place, asked.path)
    return LoopToolResult(content={"files": names[:MOST_LISTED], "count": len(names), "cut": len(names) > MOST_LISTED})


def search(place: LoopWorkspace, asked: SearchFilesArguments, most: int) -> LoopToolResult:
    pattern = re.compile(asked.pattern, re.IGNORECASE if asked.ignore_case else 0)
    found: list[dict[str, object]] = []
    size, cut = 0, False
    with _deadline(SEARCH_SECONDS):
        for name in _below(place, asked.path):
            cut = cut or len(found) >= MOST_FOUND or size > most
            if cut:
                break
            for number, line in enumerate(_lines(place, name), 1):
                if pattern.search(line):
                    found.append({"path": name, "line": number, "text": line[:300]})
                    size += min(len(line), 300)
    return LoopToolResult(content={"found": found[:MOST_FOUND], "cut": cut or len(found) > MOST_FOUND})


@contextlib.contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """End a search that takes too long: some patterns never end, and nothing else can interrupt them."""

    def ring(*_: object) -> None:
        raise ToolRefused("the search took too long: simplify the pattern, or name a folder")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _below(place: LoopWorkspace, folder: str) -> list[str]:
    path = place.inside(folder)
    if not path.exists():
        raise ToolRefused(f"{folder!r} does not exist")
    start = place.name(path)
    names = place.files()
    return names if start == "." else [name for name in names if name == start or name.startswith(f"{start}/")]


def _lines(place: LoopWorkspace, name: str) -> list[str]:
    try:
        path = place.inside(name)  # a symlink that git keeps may lead anywhere
        if path.stat().st_size > MOST_BYTES:
            return []
        data = path.read_bytes()
    except (OSError, ToolRefused):
        return []
    return [] if b"\0" in data[:8000] else [line[:2000] for line in data.decode(errors="replace").splitlines()]
