"""The change between two commits in numbered pieces, and a file made of chosen pieces of several changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from corral.world.git.repository import PLAIN_DIFF, Repository

#: Changes with at most two lines between them are one piece; settings of the repository have no say in it.
CUT = (
    "-U1", "--inter-hunk-context=0", "--diff-algorithm=histogram", "--indent-heuristic", "--text", "--full-index",
    "--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
FILES = ("100644", "100755")
NO_LINES: list[bytes] = []
ENV = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "diff.suppressBlankEmpty",
    "GIT_CONFIG_VALUE_0": "false",
}


class Piece(Struct, frozen=True):
    """Some lines of the base that became others; lines are counted from 0 and carry their ends."""

    number: int  #: from 1, in this file
    start: int  #: the first line of the base that is replaced; nothing is replaced: what is new stands before it
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    head: str  #: as a patch has it
    lines: tuple[bytes, ...]  #: with their signs and the line around them

    @property
    def end(self) -> int:
        return self.start + len(self.old)


class ChangedFile(Struct, frozen=True):
    """One file of a change; whole where it cannot be cut: links, submodules, binary files, what changes its kind."""

    path: str
    before: str | None  #: mode
    after: str | None
    pieces: tuple[Piece, ...] = ()
    whole: str = ""  #: why it cannot be cut


async def changed(repository: Repository, base: str, commit: str, paths: Sequence[str] = ()) -> list[ChangedFile]:
    """Return the files that differ between two commits, cut into pieces."""
    finished = await repository.git(
        "diff", "--patch-with-raw", "-z", "--no-abbrev", *PLAIN_DIFF, *CUT, base, commit, "--", *paths,
        env=ENV,
    )  # fmt: skip
    return list(_read(finished.out))


def _read(out: bytes) -> Iterator[ChangedFile]:
    rows: list[tuple[str, str, str, str]] = []
    while out.startswith(b":"):
        about, path, out = out.split(b"\0", 2)
        old_mode, mode, _, _, kind = about[1:].decode().split(" ")
        rows.append((path.decode(errors="surrogateescape"), old_mode, mode, kind))
    sections = _sections(out.removeprefix(b"\0"))
    for path, old_mode, mode, kind in rows:
        body = next(sections, NO_LINES)
        if kind == "T":  # told as one gone and one new
            next(sections, NO_LINES)
        before, after = (each if each.strip("0") else None for each in (old_mode, mode))
        modes = [each for each in (before, after) if each]
        if any(each not in FILES for each in modes):
            yield ChangedFile(path, before, after, whole="not a plain file")
        elif any(b"\0" in line for line in body):
            yield ChangedFile(path, before, after, whole="not text")
        else:
            pieces = tuple(_pieces(body))
            yield ChangedFile(path, before, after, pieces, "" if pieces else "no line of it changed")


def _sections(patch: bytes) -> Iterator[list[bytes]]:
    """Yield the lines that a patch has for each file, without ends."""
    lines: list[bytes] | None = None
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            if lines is not None:
                yield lines
            lines = []
        elif lines is not None:
            lines.append(line)
    if lines is not None:
        yield lines


def _pieces(lines: Sequence[bytes]) -> Iterator[Piece]:
    starts = [place for place, line in enumerate(lines) if line.startswith(b"@@ ")]
    for number, (start, end) in enumerate(zip(starts, [*starts, len(lines)][1:], strict=True), 1):
        found = HEAD.match(lines[start])
        if found:
            yield _piece(number, found, _with_ends([line for line in lines[start + 1 : end] if line]))


def _with_ends(lines: Sequence[bytes]) -> list[bytes]:
    """Give lines their ends back, but for those that a patch says have none."""
    ended: list[bytes] = []
    for line in lines:
        if line.startswith(b"\\"):
            ended[-1] = ended[-1].removesuffix(b"\n")
        else:
            ended.append(line + b"\n")
    return ended


def _piece(number: int, found: re.Match[bytes], lines: Sequence[bytes]) -> Piece:
    same = [line[:1] == b" " for line in lines]
    first = same.index(False)
    last = len(same) - same[::-1].index(False)
    count = int(found.group(2) or 1)
    start = int(found.group(1)) - (1 if count else 0) + first
    core = lines[first:last]
    return Piece(
        number=number,
        start=start,
        old=tuple(line[1:] for line in core if line[:1] in b" -"),
        new=tuple(line[1:] for line in core if line[:1] in b" +"),
        head=found.group(0).decode(errors="replace"),
        lines=tuple(lines),
    )


def clash(one: Piece, other: Piece) -> bool:
    """Tell whether two pieces cannot both be taken: they change the same lines, or put lines at the same place."""
    if (one.start, one.old, one.new) == (other.start, other.old, other.new):
        return False
    if not one.old and not other.old:
        return one.start == other.start
    return one.start < other.end and other.start < one.end


def apply(base: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return a file with these pieces in place; none of them clash."""
    lines = _lines(base)
    result: list[bytes] = []
    place = 0
    for start, end, new in sorted({(piece.start, piece.end, piece.new) for piece in pieces}):
        result += [*lines[place:start], *new]
        place = end
    return b"".join((*result, *lines[place:]))


def _lines(content: bytes) -> list[bytes]:
    """Split at line feeds only, as git does."""
    parts = [part + b"\n" for part in content.split(b"\n")]
    parts[-1] = parts[-1].removesuffix(b"\n")
    return parts if parts[-1] else parts[:-1]
