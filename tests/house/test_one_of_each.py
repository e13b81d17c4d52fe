"""One of each: one formatter of money, one list of each set of values, one place that starts programs."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from corral.agents.formats.error_words import error_class
from corral.boxed import player
from corral.boxed.loop import session
from corral.engine.views import history, run_status
from corral.frontends import run_filters
from corral.model.evidence import GRADES
from corral.model.values import ErrorClass
from corral.store import records
from corral.store.sqlite import plain_list

SOURCE = Path(__file__).parents[2] / "src" / "corral"
#: A dollar sign before a number with its decimals.
MONEY = re.compile(r"\$\{[^{}]*:[,.\d]*[fg]\}")
STARTS = {
    "world/process.py": "everything that the engine starts",
    "frontends/text.py": "the pager of a user's own terminal",
}
OUTSIDE = ("boxed/", "testing/")  #: programs of their own


@cache
def _trees() -> dict[str, ast.Module]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def test_only_one_function_writes_money() -> None:
    found = {name: MONEY.findall((SOURCE / name).read_text()) for name in _trees() if name != "amounts.py"}
    assert {name: places for name, places in found.items() if places} == {}
    assert MONEY.search((SOURCE / "amounts.py").read_text())


def _sets_of_values(tree: ast.Module) -> Iterator[frozenset[object]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and ast.unparse(node.value) == "Literal"
            and isinstance(node.slice, ast.Tuple)
        ):
            yield frozenset(each.value for each in node.slice.elts if isinstance(each, ast.Constant))


def test_the_values_of_a_choice_are_listed_once() -> None:
    places: defaultdict[frozenset[object], list[str]] = defaultdict(list)
    for name, tree in _trees().items():
        for values in _sets_of_values(tree):
            places[values].append(name)
    assert {tuple(map(str, values)): names for values, names in places.items() if len(names) > 1} == {}


def test_a_choice_that_is_listed_twice_would_be_found() -> None:
    tree = ast.parse('A = Literal["x", "y"]\ndef f(a: Literal["y", "x"] | None) -> None: ...\n')
    assert list(_sets_of_values(tree)) == [frozenset("xy"), frozenset("xy")]


def test_lists_that_cannot_import_the_model_agree_with_it() -> None:
    assert plain_list.GRADES == GRADES
    assert (plain_list.ORPHANED, plain_list.QUEUED) == (run_status.ORPHANED, run_status.QUEUED)
    assert (plain_list.GRADED_MOST, plain_list.UNITS) == (history.GRADED_MOST, run_filters.UNITS)
    assert plain_list.MOST_LEASE == records.LEASE_SECONDS + records.LEASE_AHEAD_SECONDS
    assert frozenset(player.CLASSES) == frozenset(get_args(ErrorClass))


def _starts_programs(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Import) and any(each.name == "subprocess" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "subprocess")
        or (isinstance(node, ast.Attribute) and node.attr.startswith("create_subprocess_"))
        for node in ast.walk(tree)
    )


def test_programs_are_started_in_one_place() -> None:
    found = {name for name, tree in _trees().items() if _starts_programs(tree) and not name.startswith(OUTSIDE)}
    assert found == {*STARTS}


def test_no_front_end_needs_the_command_line() -> None:
    knows = {
        f"{name}:{node.lineno}"
        for name, tree in _trees().items()
        if name.startswith("frontends/") and not name.startswith("frontends/cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corral.frontends.cli")
    }
    assert knows == set()


def files_with(pattern: str) -> list[str]:
    found = re.compile(pattern, re.MULTILINE)
    return sorted(str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if found.search(file.read_text()))


def test_one_class_is_called_hunk() -> None:
    assert files_with(r"^class Hunk\b") == ["model/merge.py"]


def test_one_table_says_which_words_mean_which_failure() -> None:
    assert files_with(r"context window") == ["model/error_classes.py"]
    for status in (401, 403, 404, 413, 429, 500, 501, 503, 529):
        assert error_class(status, "") == session._by_status(status, "")
    too_long = "the request exceeds the available context size"
    assert error_class(400, too_long) == session._by_status(400, too_long) == "context_too_long"


@pytest.mark.parametrize("command", ["rm", "pause", "resume"])
def test_schedules_and_triggers_share_their_commands(command: str) -> None:
    for module in ("schedule", "trigger"):
        tree = ast.parse((SOURCE / "frontends/cli" / f"{module}.py").read_text())
        own = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert command not in own
