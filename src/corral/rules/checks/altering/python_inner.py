"""Python tests that judge in callbacks, which are made to fail, or in loops, of which is noted that they run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import cast

from corral.rules.checks.altering.marks import Marks
from corral.rules.text.python_code import parse_module

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
BLOCKS = ("body", "orelse", "finalbody")


def make_fail(test: Function, marks: Marks, equalities: Collection[str]) -> bool:
    """Have what judges in functions inside of a test fail; tell whether there is any.

    Such a test must fail then, unless these parts never run, or nobody notices what they raise.
    """
    inside = [each for node in test.body for each in ast.walk(node) if isinstance(each, Function)]
    return _replace_all(inside, marks, equalities)


def note_loops(test: Function, name: str, equalities: Collection[str]) -> bool:
    """Note in a list of this name that judging parts of loops are reached; tell whether nothing else judges."""
    judging = [each for each in ast.walk(test) if isinstance(each, ast.stmt) and _judges(each, equalities)]
    loops = [each for each in test.body if isinstance(each, Loop)]
    looped = {id(one) for each in loops for one in ast.walk(each)}
    if not judging or any(id(each) not in looped for each in judging) or _keeps(test):
        return False
    for each in [one for loop in loops for one in ast.walk(loop)]:
        for field in BLOCKS:
            block = _block(each, field)
            if any(_judges(one, equalities) for one in block):
                note = parse_module(f"{name}.append(1)").body
                setattr(
                    each, field, [new for one in block for new in (*(note if _judges(one, equalities) else ()), one)]
                )
    return True


def _replace_all(nodes: Sequence[ast.AST], marks: Marks, equalities: Collection[str]) -> bool:
    """Change each of these nodes; tell whether one was changed."""
    changed = [_replace_judges(each, marks, equalities) for each in nodes]
    return any(changed)


def _keeps(test: Function) -> bool:
    """Tell a test in which a failure may rightly end."""
    return any(isinstance(each, ast.Try | ast.With | ast.AsyncWith | ast.Raise) for each in ast.walk(test))


def _replace_judges(node: ast.AST, marks: Marks, equalities: Collection[str]) -> bool:
    changed = False
    for each in list(ast.walk(node)):
        for name in BLOCKS:
            block = _block(each, name)
            if any(_judges(one, equalities) for one in block):
                setattr(each, name, [new for one in block for new in _failing(one, marks, equalities)])
                changed = True
    return changed


def _block(node: ast.AST, name: str) -> list[ast.stmt]:
    found: object = getattr(node, name, None)
    return (
        [each for each in cast("list[object]", found) if isinstance(each, ast.stmt)] if isinstance(found, list) else []
    )


def _failing(node: ast.stmt, marks: Marks, equalities: Collection[str]) -> list[ast.stmt]:
    """Have a statement that judges find out its values, and fail."""
    if not _judges(node, equalities):
        return [node]
    called = _call_of(node)
    values = [node.test] if isinstance(node, ast.Assert) else called.args if called else []
    return [*map(ast.Expr, values), parse_module(f"raise AssertionError({marks.word!r})").body[0]]


def _call_of(node: ast.stmt) -> ast.Call | None:
    return node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def _judges(node: ast.stmt, equalities: Collection[str]) -> bool:
    """Tell a statement that compares; one that fails in any case says that it must not be reached."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    called = _call_of(node)
    return called is not None and isinstance(called.func, ast.Attribute) and called.func.attr in equalities
