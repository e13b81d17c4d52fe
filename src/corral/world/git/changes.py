"""The difference between two commits: its files with their renames, its patch, and its numbered pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from corral.world.git import resolve_conflicts
from corral.world.git.repository import PLAIN_DIFF, Repository, empty_tree

DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "-l1000", "--submodule=short")
Kind = Literal["added", "deleted", "renamed", "copied", "changed", "type"]
KINDS: dict[str, Kind] = {"A": "added", "D": "deleted", "R": "renamed", "C": "copied", "T": "type"}
MOST_KEPT_FILES = 100
MOST_KEPT_BYTES = 1 << 20


class FileHunks(Struct, frozen=True, kw_only=True):
    """One file that differs between two commits; what is None was not there, or is gone."""

    path: str
    old_path: str
    kind: Kind
    old_mode: str | None
    new_mode: str | None
    old_blob: str | None
    new_blob: str | None
    insertions: int | None = None  #: None: not text
    deletions: int | None = None

    @property
    def binary(self) -> bool:
        return self.insertions is None

    @property
    def lines(self) -> int:
        return (self.insertions or 0) + (self.deletions or 0)


async def files(repository: Repository, base: str | None, commit: str, *paths: str) -> list[FileHunks]:
    """Return the files that differ, or of these paths those that do, in git's order."""
    out = (
        await repository.git(
            "diff", "--raw", "--numstat", "--no-abbrev", "-z", *DIFF_OPTIONS,
            base or empty_tree(commit), commit, "--", *paths,
            env={"GIT_LITERAL_PATHSPECS": "1"},
        )
    ).out  # fmt: skip
    parts = out.decode(errors="surrogateescape").split("\0")
    rows = iter(parts)
    raw: list[FileHunks] = []
    counts: dict[str, tuple[int | None, int | None]] = {}
    for row in rows:
        if row.startswith(":"):
            raw.append(_file(row, rows))
        elif row:
            plus, minus, path = row.split("\t", 2)
            if not path:  # of a rename both names follow
                next(rows)
                path = next(rows)
            counts[path] = (None, None) if plus == "-" else (int(plus), int(minus))
    return [_with_counts(each, counts.get(each.path, (0, 0))) for each in raw]


def _file(row: str, rows: Iterator[str]) -> FileHunks:
    old_mode, new_mode, before, after, status = row.removeprefix(":").split(" ")
    old_path = next(rows)
    kind = KINDS.get(status[0], "changed")
    return FileHunks(
        path=next(rows) if kind in ("renamed", "copied") else old_path,
        old_path=old_path,
        kind=kind,
        old_mode=None if kind == "added" else old_mode,
        new_mode=None if kind == "deleted" else new_mode,
        old_blob=None if kind == "added" else before,
        new_blob=None if kind == "deleted" else after,
    )


def _with_counts(file: FileHunks, counts: tuple[int | None, int | None]) -> FileHunks:
    return structs.replace(file, insertions=counts[0], deletions=counts[1])


async def patch(repository: Repository, base: str | None, commit: str, *paths: str) -> str:
    """Return the patch of some files as text; what is not UTF-8 in it is shown as such."""
    words = ("diff", "--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", "-U3")
    finished = await repository.git(
        *words, *DIFF_OPTIONS, base or empty_tree(commit), commit, "--", *paths, env={"GIT_LITERAL_PATHSPECS": "1"}
    )
    return finished.out.decode(errors="replace")


# --- numbered pieces

#: Changes with at most two lines between them are one piece; settings of the repository have no say in it.
CUT = (
    "-U1", "--inter-hunk-context=0", "--diff-algorithm=histogram", "--indent-heuristic", "--text", "--full-index",
    "--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")


PLAIN_FILES = ("100644", "100755")


NO_LINES: list[bytes] = []


CUT_ENV = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "diff.suppressBlankEmpty",
    "GIT_CONFIG_VALUE_0": "false",
}


class Piece(Struct, frozen=True):
    """Some lines of the base that became others; lines are counted from 0 and carry their ends."""

    number: int  #: from 1, in this file
    start: int  #: the first line of the base that is replaced; nothing is replaced: what is new is before it
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    head: str  #: as a patch has it
    lines: tuple[bytes, ...]  #: with their signs and the line around them

    @property
    def end(self) -> int:
        return self.start + len(self.old)


class CutFile(Struct, frozen=True):
    """One file of a change; whole where it cannot be cut: links, submodules, binary files, what changes its kind."""

    path: str
    before: str | None  #: mode
    after: str | None
    pieces: tuple[Piece, ...] = ()
    whole: str = ""  #: why it cannot be cut


async def cut_files(repository: Repository, base: str, commit: str, paths: Sequence[str] = ()) -> list[CutFile]:
    """Return the files that differ between two commits, cut into pieces."""
    finished = await repository.git(
        "diff", "--patch-with-raw", "-z", "--no-abbrev", *PLAIN_DIFF, *CUT, base, commit, "--", *paths,
        env=CUT_ENV,
    )  # fmt: skip
    return list(_read_cut(finished.out))


def _read_cut(out: bytes) -> Iterator[CutFile]:
    rows: list[tuple[str, str, str, str]] = []
    while out.startswith(b":"):
        about, path, out = out.split(b"\0", 2)
        old_mode, mode, _, _, kind = about[1:].decode().split(" ")
        rows.append((path.decode(errors="surrogateescape"), old_mode, mode, kind))
    sections = _sections(out.removeprefix(b"\0"))
    for path, old_mode, mode, kind in rows:
        body = next(sections, NO_LINES)
        if kind == "T":  # reported as one removed and one added
            next(sections, NO_LINES)
        before, after = (each if each.strip("0") else None for each in (old_mode, mode))
        modes = [each for each in (before, after) if each]
        if any(each not in PLAIN_FILES for each in modes):
            yield CutFile(path, before, after, whole="not a plain file")
        elif any(b"\0" in line for line in body):
            yield CutFile(path, before, after, whole="not text")
        else:
            pieces = tuple(_pieces(body))
            yield CutFile(path, before, after, pieces, "" if pieces else "no line of it changed")


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


def do_clash(one: Piece, other: Piece) -> bool:
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


async def keeps_lines(repository: Repository, branch: str, before: str, after: str) -> bool:
    """Tell whether at least half of the lines that came from one commit to another are in a branch's files."""
    added = kept = 0
    for path in list(await repository.names_changed(before, after))[:MOST_KEPT_FILES]:
        old, new, now = [await _changed_lines(repository, commit, path) for commit in (before, after, branch)]
        came = {line for line in new - old if line.strip()}
        added += len(came)
        kept += len(came & now)
    return bool(added) and 2 * kept >= added


async def _changed_lines(repository: Repository, commit: str, path: str) -> set[bytes]:
    found = (await resolve_conflicts.entries_of(repository, commit, [path])).get(path)
    if found is None or not found[0].startswith("100"):
        return set()
    return {*(await repository.blob(found[1]))[:MOST_KEPT_BYTES].splitlines()}
