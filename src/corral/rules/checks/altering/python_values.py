"""Other values for what Python tests expect."""

from __future__ import annotations

import ast
import re

from corral.rules.checks.altering.marks import Marks
from corral.rules.text.python_code import parse_expression

LARGEST = 1e6  #: of a float that another number can be added to without being lost
SMALL = 1000.0  #: of what a tolerance may be relative to
#: Names of objects that are there to be equal to many values.
MATCHERS = re.compile(r"^(ANY|any|Any|Is|Has|Contains|Matches)(?![a-z])|[Aa]nything|[Mm]atcher|[Ww]ildcard|[Ss]entinel")
TOLERANCES = {"rel": 0.1, "abs": 100.0}


def another(node: ast.expr, marks: Marks) -> ast.expr:
    """Return an expression that honest code is never equal to where it is equal to this one."""
    if isinstance(node, ast.Call) and (found := _approximate(node, marks)) is not None:
        return found
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _at_run_time(node, marks)
    if type(value) is int:
        return ast.Constant(value + marks.number)
    if type(value) is float and abs(value) < LARGEST:
        return ast.Constant(value + marks.number)
    if isinstance(value, str):
        return ast.Constant(value + marks.ending)
    if isinstance(value, bytes):
        return ast.Constant(value + marks.ending.encode())
    if isinstance(node, ast.List | ast.Tuple):
        return type(node)([*node.elts, ast.Constant(marks.number)], ast.Load())
    if isinstance(node, ast.Set):
        return ast.Set([*node.elts, ast.Constant(marks.number)])
    if isinstance(node, ast.Dict):
        return ast.Dict([*node.keys, ast.Constant(marks.word)], [*node.values, ast.Constant(marks.number)])
    return ast.Tuple([node, ast.Constant(marks.number)], ast.Load())


def _at_run_time(node: ast.expr, marks: Marks) -> ast.expr:
    """Return an expression that makes another value of the same type where that is possible."""
    text = (
        f"(lambda e: e + {marks.number} if type(e) is int or (type(e) is float and -{LARGEST} < e < {LARGEST})"
        f" else e + {marks.ending!r} if type(e) is str else (e, {marks.number}))(0)"
    )
    made = parse_expression(text)
    assert isinstance(made, ast.Call)  # noqa: S101 -- it is written above
    made.args = [node]
    return made


def _approximate(node: ast.Call, marks: Marks) -> ast.expr | None:
    """Change what `pytest.approx` is given; None where its tolerance may be as large as the change."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name != "approx" or len(node.args) != 1:
        return None
    for each in node.keywords:
        most = TOLERANCES.get(each.arg or "", 0.0)
        if not isinstance(each.value, ast.Constant) or not isinstance(each.value.value, int | float):
            return None
        if each.value.value > most:
            return None
    value = node.args[0]
    if not isinstance(value, ast.Constant) or type(value.value) not in (int, float) or abs(value.value) >= SMALL:  # pyright: ignore[reportArgumentType]
        return None
    return ast.Call(node.func, [another(value, marks)], node.keywords)


def is_matcher(node: ast.expr) -> bool:
    """Tell an object that may rightly be equal to many values."""
    while isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(MATCHERS.search(name))


def is_plain(node: ast.expr) -> bool:
    """Tell an expression that holds no judgement of its own: `add(1, 2)`, and not `abs(add(1, 2) - 3)`."""
    inner = ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp | ast.Lambda | ast.IfExp
    return not any(isinstance(each, inner) and not _is_number(each) for each in ast.walk(node))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def is_telling(node: ast.expr) -> bool:
    """Tell an expected value that is more than yes, no or nothing."""
    return not (isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)))
