"""Doubts about classes that compare in a way of their own with plain values: tests may take them for those."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from corral.rules.checks.steering.python_syntax import dotted_name
from corral.rules.checks.steering.text_doubts import Hit
from corral.rules.checks.steering.text_patterns import LENIENT

VALUES = frozenset({
    "str", "bytes", "bytearray", "int", "float", "complex", "bool", "list", "tuple", "dict", "set", "frozenset",
    "UserString", "UserList", "UserDict", "Decimal", "Fraction", "date", "datetime", "timedelta", "OrderedDict",
    "defaultdict", "Counter", "deque", "Path", "PurePath", "PosixPath",
})  # fmt: skip
EQUALS = frozenset({"__eq__", "__ne__"})
ORDERS = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
#: What only plain values have: who calls these on the other side compares with such a value.
OF_TEXT = frozenset({
    "lower", "upper", "casefold", "strip", "lstrip", "rstrip", "replace", "split", "startswith", "endswith", "find",
    "title", "capitalize", "swapcase", "translate", "encode", "decode", "normalize", "removeprefix", "removesuffix",
})  # fmt: skip
CONVERSIONS = VALUES | {"repr", "abs", "round", "sorted", "len", "iter", "zip", "any", "all", "sum", "math.isclose"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def lenient_comparisons(tree: ast.Module) -> Iterator[Hit]:
    """Find classes with a comparison of their own that stands for the one of a plain value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        elif isinstance(node, ast.Call) and dotted_name(node.func) in ("type", "types.new_class"):
            yield from _of_made(node)


def _of_class(node: ast.ClassDef) -> Iterator[Hit]:
    derived = _is_value(node.bases)
    for each in node.body:
        name = ""
        if isinstance(each, Function):
            name = each.name
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id if not isinstance(each.value, ast.Constant) else ""
        if (derived and name in EQUALS | ORDERS | {"__contains__"}) or (
            name in EQUALS and isinstance(each, Function) and _meets_values(each)
        ):
            lines = {each.lineno, *(one.lineno for one in ast.walk(each) if isinstance(one, ast.stmt))}
            yield from (Hit(line, LENIENT, strong=False) for line in sorted(lines))


def _of_made(node: ast.Call) -> Iterator[Hit]:
    """Find a class that is made by a call, from a plain type and methods in a dictionary."""
    bases = [each for part in node.args for each in (part.elts if isinstance(part, ast.Tuple) else ())]
    keys = {
        key.value
        for part in node.args
        if isinstance(part, ast.Dict)
        for key in part.keys
        if isinstance(key, ast.Constant)
    }
    if keys & (EQUALS | ORDERS) or (_is_value(bases) and "__contains__" in keys):
        yield Hit(node.lineno, LENIENT, strong=False)


def _is_value(bases: list[ast.expr]) -> bool:
    names = [each.value if isinstance(each, ast.Subscript) else each for each in bases]
    return any(dotted_name(each).rpartition(".")[2] in VALUES for each in names)


def _meets_values(method: Function) -> bool:
    """Tell a comparison that takes the other side for a plain value: it asks for its type, or converts it unasked."""
    arguments = [each.arg for each in (*method.args.posonlyargs, *method.args.args)]
    if len(arguments) < 2:
        return False
    other = arguments[1]
    called = [each for each in ast.walk(method) if isinstance(each, ast.Call)]
    asked = [each.args[1] for each in called if dotted_name(each.func) == "isinstance" and _is_about(each, other)]
    kinds = [one for each in asked for one in (each.elts if isinstance(each, ast.Tuple) else [each])]
    if kinds:
        return _is_value(kinds)
    return any(_converts(each, other) for each in called)


def _is_about(node: ast.Call, other: str) -> bool:
    return len(node.args) == 2 and isinstance(node.args[0], ast.Name) and node.args[0].id == other


def _converts(node: ast.Call, other: str) -> bool:
    if any(isinstance(each, ast.Name) and each.id == other for each in node.args):
        return dotted_name(node.func) in CONVERSIONS
    of = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in OF_TEXT else None
    return isinstance(of, ast.Name) and of.id == other
