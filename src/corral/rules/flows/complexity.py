"""How much a task asks for: a score from its kind, its words and its files, so that a choice can be explained."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from corral.model import ComplexityTable
from corral.model.flow import Grade, Task, TaskType

GRADES: tuple[tuple[int, Grade], ...] = ((50, "architectural"), (35, "complex"), (20, "moderate"), (10, "simple"))


def _types() -> dict[TaskType, int]:
    return {"architecture": 40, "feature": 25, "refactor": 20, "bugfix": 15, "test": 10, "documentation": 5}


def _words() -> dict[str, int]:
    return {
        "architecture": 15, "design": 15, "migrate": 12, "refactor": 10, "integrate": 10, "implement": 8, "add": 5,
        "create": 5, "fix": 3, "update": 3,
    }  # fmt: skip


class Weights(Struct, frozen=True, kw_only=True):
    """What counts how much; `[complexity]` in settings may change it."""

    types: Mapping[TaskType, int] = field(default_factory=_types)
    other_type: int = 15
    words: Mapping[str, int] = field(default_factory=_words)


def weights_of(said: ComplexityTable) -> Weights:
    """Return the usual weights with what settings say instead."""
    usual = Weights()
    return Weights(
        types={**usual.types, **said.types},
        words={**usual.words, **said.words},
        other_type=usual.other_type if said.other_type is None else said.other_type,
    )


class Score(Struct, frozen=True):
    points: int
    grade: Grade
    reasons: tuple[str, ...]


def score(task: Task, weights: Weights | None = None) -> Score:
    """Grade a task; whole words count, each once ("address" is not "add")."""
    weights = weights or Weights()
    kind = weights.types.get(task.type, weights.other_type) if task.type else weights.other_type
    reasons = [f"{task.type or 'no type'} {kind}"]
    said = set(re.findall(r"[a-z]+", task.prompt.lower()))
    found = {word: points for word, points in weights.words.items() if points and word in said}
    reasons += [f"`{word}` {points}" for word, points in found.items()]
    files = _files(len(task.files))
    reasons += [f"{len(task.files)} files {files}"] if files else []
    points = kind + sum(found.values()) + files
    return Score(points, _grade(points), tuple(reasons))


def _grade(points: int) -> Grade:
    for least, name in GRADES:
        if points >= least:
            return name
    return "trivial"


def _files(count: int) -> int:
    return next(points for most, points in ((0, 0), (1, 2), (3, 5), (5, 10), (10**9, 15)) if count <= most)
