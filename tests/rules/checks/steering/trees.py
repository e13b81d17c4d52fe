"""Two trees as dicts, and what the rules say about the way from one to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks import steering
from corral.rules.checks.steering import Harness, PathChange

Tree = Mapping[str, str | bytes]
TASK = Task(prompt="fix it")


def changes(base: Tree, delivered: Tree) -> list[PathChange]:
    changed = [PathChange(path, "changed" if path in delivered else "deleted") for path in base]
    changed += [PathChange(path, "added") for path in delivered if path not in base]
    return [each for each in changed if base.get(each.path) != delivered.get(each.path)]


def contents(base: Tree, delivered: Tree, checks: Sequence[str]) -> dict[steering.Key, bytes | None]:
    """Read what the rules ask for, until it is enough."""
    found: dict[steering.Key, bytes | None] = {}
    for _ in range(20):
        asked = steering.missing_contents(changes(base, delivered), checks, list(base), found)
        if not asked:
            return found
        assert not set(asked) & set(found)
        for side, path in asked:
            content = (base if side == "base" else delivered).get(path)
            found[side, path] = content.encode() if isinstance(content, str) else content
    raise AssertionError("it asks for ever")


def harness(base: Tree, delivered: Tree, *checks: str, task: Task | str = TASK, shadows: Sequence[str] = ()) -> Harness:
    asked = Task(prompt=task) if isinstance(task, str) else task
    found = contents(base, delivered, checks)
    return steering.harness(changes(base, delivered), checks, asked, list(base), found, shadows)


def how(found: Harness) -> dict[str, str]:
    return {each.path: each.how for each in found.steered}


def tree(base: Tree, delivered: Tree, found: Harness) -> dict[str, str | bytes]:
    """Make the harness tree."""
    made = dict(delivered)
    for each in found.steered:
        if each.how == "put back":
            made[each.path] = base[each.path]
        elif each.how in ("removed", "new test"):
            del made[each.path]
        elif each.how == "merged":
            made[each.path] = found.merged[each.path].decode()
    return made


def doubts(base: Tree, delivered: Tree) -> list[Doubt]:
    every = {("base", path): _bytes(text) for path, text in base.items()} | {
        ("delivered", path): _bytes(text) for path, text in delivered.items()
    }
    return steering.doubts(changes(base, delivered), every)  # pyright: ignore[reportArgumentType]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
