"""What modules may know of each other, beyond the contracts of import-linter."""

from __future__ import annotations

import ast

import pytest

from tests.house.import_graph import SOURCE, cycles, import_graph, single_importers

pytestmark = pytest.mark.slow  # left out of `make quick`

MOST_ALONE = 90  #: modules that only one other imports
MOST_CALLS = 29  #: of a machine, with its facts (decision 97)

#: What front ends may import of the engine besides its views (decision 34).
DOORS = {
    "engine", "budget.money", "chats", "doctor", "editors", "first_settings", "inbox.remote_answers", "issue_watch",
    "linear_delegations", "machine_reports", "memory", "merge.pick_files", "planner", "planning.build_flow",
    "planning.submit", "programs", "queue.rows", "queue.supervisor", "queue.triggers", "tokens", "tools",
    "planning.explain", "user_folders", "verify",
}  # fmt: skip


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    assert cycles(import_graph()) == []


def test_a_circle_would_be_found() -> None:
    graph = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"a", "d"}), "d": frozenset[str]()}
    assert cycles(graph) == [["a", "b", "c"]]


def test_front_ends_reach_stored_data_through_the_engine_alone() -> None:
    reached = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted((SOURCE / "corral" / "frontends").glob("**/*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("store", "_store", "_context")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]  # fmt: skip
    assert reached == []


def test_front_ends_enter_the_engine_by_its_doors() -> None:
    entered = {
        each.removeprefix("corral.engine.")
        for name, imported in import_graph().items()
        if name.startswith("corral.frontends.")
        for each in imported
        if each.startswith("corral.engine.") and not each.startswith("corral.engine.views")
    }
    assert entered == DOORS


def test_modules_with_a_single_importer_become_no_more() -> None:
    alone = [name for name in single_importers(import_graph()) if not name.endswith("__main__")]
    assert len(alone) <= MOST_ALONE, "\n".join(alone)


def test_a_machine_has_no_more_calls() -> None:
    path = SOURCE / "corral" / "machines" / "machine.py"
    machine = next(
        each for each in ast.parse(path.read_text()).body if isinstance(each, ast.ClassDef) and each.name == "Machine"
    )
    calls = [each.name for each in machine.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert 0 < len(calls) <= MOST_CALLS, calls
