"""Doubts about Python classes and functions that answer as a test wishes, or keep its failures from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from corral.rules.checks.steering.python_syntax import dotted_name, is_constant
from corral.rules.checks.steering.text_doubts import Hit

ANSWERS = "answers every question of a test in the same way"
SWALLOWS = "keeps failures of what it wraps to itself"
CONTAINERS = frozenset(
    {"list", "dict", "set", "frozenset", "tuple", "str", "bytes", "UserList", "UserDict", "UserString"}
)
NUMBERS = frozenset({"int", "float", "complex", "Decimal", "Fraction", "bool"})
ARITHMETIC = frozenset(
    f"__{side}{name}__"
    for side in ("", "r")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod")
) | {"__abs__", "__round__", "__neg__"}
CONVERSIONS = frozenset({"__float__", "__int__", "__index__", "__trunc__", "__floor__", "__ceil__"})
ORDER = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
BROAD = frozenset({"Exception", "BaseException", "AssertionError", "builtins.Exception", "builtins.BaseException"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def answers(tree: ast.Module) -> Iterator[Hit]:
    """Find classes whose operators do not look at their operands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {dotted_name(each).rpartition(".")[2] for each in node.bases}
            methods = [each for each in node.body if isinstance(each, Function)]
            for each in methods:
                if (strong := _wishful(each, bases, methods, node.name)) is not None:
                    for line in {each.lineno, each.body[-1].lineno}:  # one of them is new
                        yield Hit(line, ANSWERS, strong=strong, caps=True)


def _wishful(method: Function, bases: set[str], methods: list[Function], own: str) -> bool | None:
    """Return whether a method is enough for a doubt; None: it is as others are."""
    value = _only_value(method)
    if value is None:
        return None
    if method.name == "__contains__" and is_constant(value, value=True):
        return bool(bases & CONTAINERS)
    if (
        method.name in ARITHMETIC | CONVERSIONS
        and isinstance(value, ast.Constant)
        and isinstance(value.value, int | float)
    ):
        return bool(bases & NUMBERS) if bases & NUMBERS or method.name not in CONVERSIONS else None
    if method.name in ORDER and is_constant(value, value=True):
        return bool(bases & (NUMBERS | CONTAINERS)) or None
    alone = all(each.name.startswith("__") and _only_value(each) is not None for each in methods)
    if method.name == "__bool__" and is_constant(value, value=True) and alone:
        return False
    if method.name == "__getattr__" and not any(_says_no(each) for each in methods):
        asked = method.args.args[-1].arg if method.args.args else ""
        made = isinstance(value, ast.Call) and ast.unparse(value.func) in (own, "type(self)", "self.__class__")
        made = made and not any(isinstance(each, ast.Name) and each.id == asked for each in ast.walk(value))
        return False if made or (isinstance(value, ast.Name) and value.id == "self") else None
    return None


def _says_no(method: Function) -> bool:
    """Tell the mark of an object that stands for nothing."""
    value = _only_value(method)
    return method.name == "__bool__" and value is not None and is_constant(value, value=False)


def _only_value(method: Function) -> ast.expr | None:
    """Return what a method returns where it does nothing else."""
    body = [each for each in method.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def swallowers(tree: ast.Module) -> Iterator[tuple[str, Hit]]:
    """Find context managers and decorators that drop every failure inside them, with the name each is used by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function) and each.name in ("__exit__", "__aexit__") and _returns_true(each):
                    yield node.name, Hit(each.body[-1].lineno, SWALLOWS, strong=False, caps=True)
        elif isinstance(node, Function):
            inner = {each.name for each in ast.walk(node) if isinstance(each, Function)} - {node.name}
            wanted = ast.Yield if any("contextmanager" in ast.unparse(each) for each in node.decorator_list) else None
            given = {each.arg for each in (*node.args.posonlyargs, *node.args.args)}
            for each in ast.walk(node):
                if isinstance(each, ast.Try) and (line := _drops(each)):
                    called = {dotted_name(one.func) for one in ast.walk(each) if isinstance(one, ast.Call)}
                    yields = wanted is not None and any(isinstance(one, wanted) for one in ast.walk(each))
                    if yields or (inner and called & given):
                        yield node.name, Hit(line, SWALLOWS, strong=False, caps=True)


def _returns_true(method: Function) -> bool:
    """Tell an `__exit__` that ends with `return True` in every case."""
    last = method.body[-1]
    return isinstance(last, ast.Return) and last.value is not None and is_constant(last.value, value=True)


def _drops(node: ast.Try) -> int:
    """Return the line of a handler that takes every failure and raises none; 0: there is none."""
    for each in node.handlers:
        kinds = each.type.elts if isinstance(each.type, ast.Tuple) else [each.type]
        broad = any(kind is None or dotted_name(kind) in BROAD for kind in kinds)
        if broad and not any(isinstance(one, ast.Raise) for one in ast.walk(each)):
            return each.body[0].lineno
    return 0
