"""What differs between two commits, file by file, for people who look at it; renames are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from corral.world.git.repository import Repository, empty_tree

SHOWN = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "-l1000", "--submodule=short")
Kind = Literal["added", "deleted", "renamed", "copied", "changed", "type"]
KINDS: dict[str, Kind] = {"A": "added", "D": "deleted", "R": "renamed", "C": "copied", "T": "type"}


class ChangedFile(Struct, frozen=True, kw_only=True):
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


async def files(repository: Repository, base: str | None, commit: str, *paths: str) -> list[ChangedFile]:
    """Return the files that differ, or of these paths those that do, in git's order."""
    out = (
        await repository.git(
            "diff", "--raw", "--numstat", "--no-abbrev", "-z", *SHOWN, base or empty_tree(commit), commit, "--", *paths,
            env={"GIT_LITERAL_PATHSPECS": "1"},
        )
    ).out  # fmt: skip
    parts = out.decode(errors="surrogateescape").split("\0")
    rows = iter(parts)
    raw: list[ChangedFile] = []
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
    return [_counted(each, counts.get(each.path, (0, 0))) for each in raw]


def _file(row: str, rows: Iterator[str]) -> ChangedFile:
    old_mode, new_mode, before, after, status = row.removeprefix(":").split(" ")
    old_path = next(rows)
    kind = KINDS.get(status[0], "changed")
    return ChangedFile(
        path=next(rows) if kind in ("renamed", "copied") else old_path,
        old_path=old_path,
        kind=kind,
        old_mode=None if kind == "added" else old_mode,
        new_mode=None if kind == "deleted" else new_mode,
        old_blob=None if kind == "added" else before,
        new_blob=None if kind == "deleted" else after,
    )


def _counted(file: ChangedFile, counts: tuple[int | None, int | None]) -> ChangedFile:
    return structs.replace(file, insertions=counts[0], deletions=counts[1])


async def patch(repository: Repository, base: str | None, commit: str, *paths: str) -> str:
    """Return the patch of some files as text; what is not UTF-8 in it is shown as such."""
    words = ("diff", "--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", "-U3")
    finished = await repository.git(
        *words, *SHOWN, base or empty_tree(commit), commit, "--", *paths, env={"GIT_LITERAL_PATHSPECS": "1"}
    )
    return finished.out.decode(errors="replace")
