"""Settle what a merge left in conflict, path by path: a side's version, or a content of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from corral.model.merge import Choice, Conflict, Side
from corral.world.git.merge_commits import MergeResult
from corral.world.git.repository import GITLINK, Repository

Preferred = Literal["ours", "theirs"]
#: Here git had to lay files beside each other under names of its own: no side has such a path.
UNDECIDABLE = ("file/directory", "distinct modes", "distinct types")


@contextlib.contextmanager
def scratch(repository: Repository) -> Generator[Path]:
    """Lend a folder in which the repository's owner may write."""
    with tempfile.TemporaryDirectory(prefix="corral-") as name:
        if repository.owner:
            os.chown(name, repository.owner.uid, repository.owner.gid)
        yield Path(name)


async def edit_tree(repository: Repository, tree: str, entries: Mapping[str, tuple[str, str] | None]) -> str:
    """Return a tree that is `tree` but for these paths: mode and blob, or None for gone."""
    if not entries:
        return tree
    lines = b""
    for path, entry in entries.items():
        mode, blob = entry or ("0", "0" * len(tree))
        lines += f"{mode} {blob}\t".encode() + os.fsencode(path) + b"\0"
    with scratch(repository) as folder:
        env = {"GIT_INDEX_FILE": str(folder / "index")}
        await repository.git("read-tree", tree, env=env)
        await repository.git("update-index", "-z", "--index-info", stdin=lines, env=env)
        return (await repository.git("write-tree", env=env)).out.decode().strip()


async def settle(repository: Repository, merged: MergeResult, choices: Mapping[str, Choice]) -> MergeResult:
    """Put what was chosen in its place; what nobody chose stays in conflict."""
    entries: dict[str, tuple[str, str] | None] = {}
    left: list[Conflict] = []
    for conflict in merged.conflicts:
        choice = choices.get(conflict.path)
        if choice is None:
            left.append(conflict)
        elif choice.blob:
            entries[conflict.path] = conflict.modes[1] or conflict.modes[2] or "100644", choice.blob
        else:
            entries[conflict.path] = _version(conflict, choice.side or "ours")
    return MergeResult(await edit_tree(repository, merged.tree, entries), tuple(left))


async def prefer(repository: Repository, merged: MergeResult, side: Preferred) -> MergeResult:
    """Where both sides changed the same lines, take one side's; the other's changes elsewhere in the file stay."""
    entries: dict[str, tuple[str, str] | None] = {}
    left: list[Conflict] = []
    for conflict in merged.conflicts:
        if conflict.kind in UNDECIDABLE:
            left.append(conflict)
        elif conflict.kind in ("contents", "add/add") and _are_texts(conflict):
            entries[conflict.path] = _mode(conflict, side), await _both(repository, conflict, side)
        else:
            entries[conflict.path] = _version(conflict, side)
    return MergeResult(await edit_tree(repository, merged.tree, entries), tuple(left))


def _version(conflict: Conflict, side: Side) -> tuple[str, str] | None:
    place = ("base", "ours", "theirs").index(side)
    blob, mode = conflict.blobs[place], conflict.modes[place]
    return (mode, blob) if mode and blob else None


def _are_texts(conflict: Conflict) -> bool:
    modes = [mode for mode in conflict.modes if mode]
    return bool(conflict.ours and conflict.theirs) and all(mode in ("100644", "100755") for mode in modes)


def _mode(conflict: Conflict, side: Preferred) -> str:
    base, ours, theirs = conflict.modes
    if ours == theirs or base is None:
        return (ours if side == "ours" else theirs) or "100644"
    return (theirs if ours == base else ours) or "100644"  # the side that changed it means it


async def _both(repository: Repository, conflict: Conflict, side: Preferred) -> str:
    with scratch(repository) as folder:
        for name, blob in (("base", conflict.base), ("ours", conflict.ours), ("theirs", conflict.theirs)):
            (folder / name).write_bytes(await repository.blob(blob) if blob else b"")
        files = [str(folder / name) for name in ("ours", "base", "theirs")]
        finished = await repository.git("merge-file", "--stdout", f"--{side}", *files, fine=tuple(range(256)))
        if finished.code == 0:
            made = await repository.git("hash-object", "-w", "--stdin", stdin=finished.out)
            return made.out.decode().strip()
    return (conflict.ours if side == "ours" else conflict.theirs) or ""  # not text after all: the side's file as it is


async def keep_file(repository: Repository, content: bytes) -> str:
    """Store a content; return its blob."""
    return (await repository.git("hash-object", "-w", "--stdin", stdin=content)).out.decode().strip()


async def entries_of(repository: Repository, commit: str, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return mode and blob of every file that a commit has at these paths, or below them."""
    env = {"GIT_LITERAL_PATHSPECS": "1"}
    listed = await repository.git("ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths, env=env)
    found: dict[str, tuple[str, str]] = {}
    for row in listed.out.decode(errors="surrogateescape").split("\0"):
        about, _, path = row.partition("\t")
        if path:
            mode, _, blob = about.split(" ")
            found[path] = mode, blob
    return found


def is_submodule(conflict: Conflict) -> bool:
    return GITLINK in conflict.modes
