"""Conflicts of many pairs of commits: git merges only pairs whose changes touch each other, in memory where it can."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from corral.model.errors import GitTrouble
from corral.world.git.command import version
from corral.world.git.merge_commits import merge_trees
from corral.world.git.repository import Repository

MOST_AT_ONCE = 4
FEW = 8  #: pairs that git merges as fast as it tells what they change
MOST_REACHED = 1_000_000  #: commits since the common base, for each of the commits to compare
IN_MEMORY = Path("/dev/shm")  # noqa: S108 -- a folder of our own is made in it

Pair = tuple[str, str]


class _Changes(Struct, frozen=True):
    """The paths that a commit changed since a base."""

    paths: frozenset[str]
    folders: frozenset[str]  #: all that these paths lie in
    adds: bool
    deletes: bool

    def may_clash(self, other: _Changes) -> bool:
        """Tell whether git could find a conflict: a path of both, a file where a folder is, or what was moved."""
        if not (self.paths and other.paths):
            return False
        moved = (self.deletes and other.adds) or (self.adds and other.deletes)  # git follows renamed folders
        return bool(moved or self.paths & other.paths or self.paths & other.folders or self.folders & other.paths)


async def merge_pairs(repository: Repository, pairs: Sequence[Pair], env: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the paths in conflict for many pairs of commits."""
    wanted = pairs if len(pairs) <= FEW else await _suspects(repository, pairs)
    found = dict(zip(wanted, await _merge_all(repository, wanted, env), strict=True))
    return [found.get(pair, ()) for pair in pairs]


async def _suspects(repository: Repository, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that may be in conflict; the others change nothing in common."""
    bases = await _bases(repository, pairs)
    wanted = dict.fromkeys((commit, base) for pair, base in bases.items() for commit in pair)
    changes = dict(zip(wanted, await _changes(repository, list(wanted)), strict=True))
    return [
        pair
        for pair in dict.fromkeys(pairs)
        if pair not in bases or changes[pair[0], bases[pair]].may_clash(changes[pair[1], bases[pair]])
    ]


async def _bases(repository: Repository, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """Return the commit that git merges each pair by, for those that have exactly one; two gits are asked for all."""
    tips = list(dict.fromkeys(commit for pair in pairs for commit in pair))
    base = (await repository.text("merge-base", "--octopus", *tips, fine=(0, 1, 128))).strip()
    if not base:
        return {}
    wanted = "".join(f"{tip}\n" for tip in (*tips, f"^{base}"))
    listed = (await repository.git("rev-list", "--parents", "--stdin", stdin=wanted.encode())).out.decode()
    parents = {names[0]: names[1:] for line in listed.splitlines() if (names := line.split())}
    if len(tips) * len(parents) > MOST_REACHED:
        return {}
    reached = {tip: _history(tip, parents) for tip in tips}
    bases: dict[Pair, str] = {}
    for pair in pairs:
        common = reached[pair[0]] & reached[pair[1]]  # besides the base and all before it
        best = common.difference(parent for each in common for parent in parents[each])
        if len(best) <= 1:
            bases[pair] = next(iter(best), base)
    return bases


def _history(tip: str, parents: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [tip]
    while waiting:
        commit = waiting.pop()
        if commit in parents and commit not in found:
            found.add(commit)
            waiting += parents[commit]
    return found


async def _changes(repository: Repository, wanted: Sequence[tuple[str, str]]) -> list[_Changes]:
    """Return what commits changed since bases; one git tells of all."""
    lines = "".join(f"{commit} {base}\n" for commit, base in wanted).encode()
    words = ("diff-tree", "--stdin", "-r", "-z", "--name-status", "--no-renames", "--always", "--root")
    parts = iter((await repository.git(*words, stdin=lines)).out.decode(errors="surrogateescape").split("\0"))
    found: list[_Changes] = []
    rows: list[tuple[str, str]] = []
    for part in parts:
        if len(part) > 1:  # a commit begins; a kind is one letter
            found.append(_read_changes(rows))
            rows = []
        elif part:
            rows.append((part, next(parts)))
    found.append(_read_changes(rows))
    return found[1:]


def _read_changes(rows: Sequence[tuple[str, str]]) -> _Changes:
    paths = frozenset(path for _, path in rows)
    folders = {path[: place + 1] for path in paths for place in range(len(path)) if path[place + 1 : place + 2] == "/"}
    kinds = {kind for kind, _ in rows}
    return _Changes(paths, frozenset(folders), adds="A" in kinds, deletes="D" in kinds)


# --- the pairs that git merges


async def _merge_all(repository: Repository, pairs: Sequence[Pair], env: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Merge pairs, by a few gits that share them; what they write is thrown away."""
    if not pairs:
        return []
    try:
        with _scratch_objects(repository) as apart:
            return await _merge_shared(repository, pairs, {**env, **apart})
    except (GitTrouble, OSError):  # no room there
        return await _merge_shared(repository, pairs, env)


async def _merge_shared(repository: Repository, pairs: Sequence[Pair], env: Mapping[str, str]) -> list[tuple[str, ...]]:
    parts = min(os.cpu_count() or 1, MOST_AT_ONCE, 1 + len(pairs) // 8)
    found = await asyncio.gather(*(_merge_some(repository, pairs[place::parts], env) for place in range(parts)))
    return [found[place % parts][place // parts] for place in range(len(pairs))]


@contextlib.contextmanager
def _scratch_objects(repository: Repository) -> Generator[dict[str, str]]:
    """Lend a folder for objects that nobody needs later, in memory where the machine has such a place."""
    where = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="corral-", dir=where) as name:
        if repository.owner:
            os.chown(name, repository.owner.uid, repository.owner.gid)
        own = str(repository.git_dir / "objects")
        yield {"GIT_OBJECT_DIRECTORY": name, "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{own}"' if ":" in own else own}


async def _merge_some(repository: Repository, pairs: Sequence[Pair], env: Mapping[str, str]) -> list[tuple[str, ...]]:
    if await version() < (2, 39):  # it takes one pair at a time
        merged = [await merge_trees(repository, *pair, env) for pair in pairs]
        return [tuple(conflict.path for conflict in each.conflicts) for each in merged]
    lines = "".join(f"{one} {other}\n" for one, other in pairs)
    words = ("merge-tree", "--write-tree", "--allow-unrelated-histories", "--name-only", "--no-messages", "--stdin")
    finished = await repository.git("-c", "core.looseCompression=0", *words, stdin=lines.encode(), env=env)
    return list(_read_pairs(finished.out.decode(errors="surrogateescape").split("\0")))


def _read_pairs(parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Read for each pair: whether it is clean, its tree, the names in conflict; an empty part ends it."""
    place = 0
    while place + 1 < len(parts):
        clean = parts[place].strip() == "1"
        names: list[str] = []
        place += 2
        while place < len(parts) and parts[place]:
            names.append(parts[place])
            place += 1
        place += 1
        yield () if clean else tuple(dict.fromkeys(names))
