"""Existing tests that were moved or adapted to a rename, as the task asks: the same harness under other names."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from corral.model.flow import Task
from corral.rules.checks.steering import moves, roles
from corral.rules.checks.steering.change import PathChange
from corral.rules.checks.steering.work import CheckedWork

MOVE = re.compile(r"(?i)\b(mov|renam|relocat|put|mv\b|transfer|reorgani|nest|pull|push)")
WORDS = re.compile(r"[\w.-]*\w")
MOST_MOVED = 30  #: deleted tests that are compared with each added one


class Renames(Struct):
    """Tests that count as the same: all their paths, old path -> new path, and names, old -> new."""

    same: set[str] = field(default_factory=set[str])
    moved: dict[str, str] = field(default_factory=dict[str, str])
    renamed: dict[str, str] = field(default_factory=dict[str, str])


def renames(work: CheckedWork, task: Task) -> Renames:
    found = Renames()
    tests = [each for each in work.changes if _may_follow(each)]
    old = [each.path for each in tests if each.kind == "deleted"]
    named: dict[str, list[str]] = {}
    for path in old:
        named.setdefault(PurePosixPath(path).name, []).append(path)
    gone, known = removed_modules(work), _delivered_names(work)
    for each in tests:
        if each.kind == "deleted":
            continue
        sources = [each.path] if each.kind == "changed" else _sources(each.path, old, named, found.moved)
        for was in sources:
            how = _asked_adaptation(work, task, (was, each.path), gone, known)
            if how is not None:
                found.same |= {was, each.path}
                found.moved |= {was: each.path} if was != each.path else {}
                found.renamed |= dict(how.renamed)
                break
    return found


def _may_follow(change: PathChange) -> bool:
    """Tell a test, or a changed conftest.py or its like, that may only follow a rename."""
    role = roles.role_of(change.path)
    return roles.is_code(change.path) and (role == "test" or (role == "runner" and change.kind == "changed"))


def _sources(path: str, old: Sequence[str], named: Mapping[str, Sequence[str]], moved: Collection[str]) -> list[str]:
    """Return deleted tests that an added one may have been: of the same file name, or any where these are few."""
    near = named.get(PurePosixPath(path).name, ())[:MOST_MOVED]
    return [each for each in (*near, *(old if len(old) <= MOST_MOVED else ())) if each not in moved]


def _asked_adaptation(
    work: CheckedWork, task: Task, paths: tuple[str, str], gone: Collection[str], known: Collection[str]
) -> moves.Adaptation | None:
    old, new = paths
    before, after = work.text("base", old), work.text("delivered", new)
    how = None if before is None or after is None else moves.find_adaptation(before, after)
    if how is None:
        return None
    moved = old != new and not how.renamed and (roles.is_named(task, old) or roles.is_named(task, new))
    moved |= how == moves.Adaptation() and _is_folder_moved(work, task, PurePosixPath(old), PurePosixPath(new))
    return how if moved or moves.is_asked_for(how, task.prompt, gone, known) else None


def _is_folder_moved(work: CheckedWork, task: Task, old: PurePosixPath, new: PurePosixPath) -> bool:
    """Tell whether the task moves a folder, its code and its tests together: it names where it lies then."""
    if old.name != new.name or not MOVE.search(task.prompt):
        return False
    beside = {
        path for path in work.base if PurePosixPath(path).parent == old.parent and roles.role_of(path) == "product"
    }
    together = all(str(new.parent / PurePosixPath(path).name) in work.added for path in beside)
    brought = {*new.parts} - {*old.parts}
    return together and bool(beside) and not beside & work.delivered and bool(brought & {*WORDS.findall(task.prompt)})


def _delivered_names(work: CheckedWork) -> set[str]:
    paths = [PurePosixPath(path) for path in work.delivered]
    return {part for path in paths for part in (*path.parts[:-1], path.stem)}


@functools.lru_cache(2)
def removed_modules(work: CheckedWork) -> set[str]:
    """Return names of modules and packages that the work took away."""
    left = {part for path in work.delivered for part in PurePosixPath(path).parts[:-1]}
    product = [each.path for each in work.changes if each.kind == "deleted" and roles.role_of(each.path) == "product"]
    return {PurePosixPath(path).stem for path in product} | {
        part for path in product for part in PurePosixPath(path).parts[:-1] if part not in left
    }
