"""The trees and parents of commits, read without starting git; a commit never changes, so it is remembered."""

from __future__ import annotations

import hashlib
import re
import zlib
from pathlib import Path

from msgspec import Struct

MOST_COMMIT = 1 << 20
MOST_KNOWN = 2000
MOST_STEPS = 200  #: of a history that is looked through

_known: dict[str, CommitHead] = {}


class CommitHead(Struct, frozen=True):
    """What the head of a commit names."""

    tree: str
    parents: tuple[str, ...]


def remember(commit: str, content: bytes) -> None:
    """Remember a commit that git has just read: its name was made of its content."""
    if head := _read(content):
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[commit] = head


def tree_of(git_dir: Path, commit: str) -> str | None:
    """Return the tree of a commit; None where git is to be asked."""
    head = _known.get(commit) or _loose(git_dir, commit)
    return head.tree if head else None


def is_surely_in_history(git_dir: Path, older: str, newer: str) -> bool:
    """Tell whether a commit is known to lie in the history of another; where not, git is to be asked."""
    waiting, seen = [newer], set[str]()
    while waiting and len(seen) < MOST_STEPS:
        commit = waiting.pop(0)
        if commit == older:
            return True
        head = _known.get(commit) or _loose(git_dir, commit)
        seen.add(commit)
        waiting += [parent for parent in head.parents if parent not in seen] if head else ()
    return False


def _loose(git_dir: Path, commit: str) -> CommitHead | None:
    """Read a commit that lies as a file of its own."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):
        return None
    try:
        packed = (git_dir / "objects" / commit[:2] / commit[2:]).read_bytes()
        whole = zlib.decompressobj().decompress(packed, MOST_COMMIT)
    except (OSError, zlib.error):
        return None
    found = hashlib.sha1(whole, usedforsecurity=False) if len(commit) == 40 else hashlib.sha256(whole)
    head, _, content = whole.partition(b"\0")
    return _read(content) if found.hexdigest() == commit and head.startswith(b"commit ") else None


def _read(content: bytes) -> CommitHead | None:
    lines = content.partition(b"\n\n")[0].split(b"\n")
    tree = re.fullmatch(rb"tree ([0-9a-f]{40}|[0-9a-f]{64})", lines[0])
    parents = tuple(line.split()[1].decode() for line in lines if line.startswith(b"parent "))
    return CommitHead(tree[1].decode(), parents) if tree else None
