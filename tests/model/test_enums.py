"""The values of each enumeration stand in one place; all others derive them with `get_args`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import corral
from corral.model import Level, Status
from corral.model.flow import MergeStrategy, On, Reducer, RunStrategy, Select, TaskType
from corral.model.merge import Side
from corral.model.money import By
from corral.model.server import AccessScope

SOURCE = Path(corral.__file__).parent
ENUMS = {
    "AccessScope": AccessScope,
    "By": By,
    "Level": Level,
    "MergeStrategy": MergeStrategy,
    "On": On,
    "Reducer": Reducer,
    "RunStrategy": RunStrategy,
    "Select": Select,
    "Side": Side,
    "Status": Status,
    "TaskType": TaskType,
}
ELSEWHERE = {"Side": {"world/git/resolve_conflicts.py"}}  #: git's own order of sides: the stages of its index


@cache
def lists() -> list[tuple[str, frozenset[object]]]:
    """Return every list of constants in the source, with its file."""
    return [
        (str(file.relative_to(SOURCE)), frozenset(words))
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        and len(words := [each.value for each in node.elts if isinstance(each, ast.Constant)]) == len(node.elts) > 1
    ]


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_the_values_of_an_enumeration_are_listed_once(name: str) -> None:
    values = frozenset(get_args(ENUMS[name]))
    found = [file for file, words in lists() if words == values and file not in ELSEWHERE.get(name, ())]
    assert len(found) == 1, found
