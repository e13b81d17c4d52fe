"""Tests that judge one changed part of the product by another one: a round trip, a constant of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from corral.rules.checks.outside.checked import States
from corral.rules.checks.outside.python_calls import EQUALITIES
from corral.rules.race.varied_calls import TROUBLES, CallReader, modules
from corral.rules.text.python_code import parse_module

MOST_COMPARISONS = 400
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

Part = tuple[str, str]  #: module and name
Parts = frozenset[Part]


class ChangedParts(Struct, frozen=True, kw_only=True):
    """Functions and constants that base and work have, with other contents."""

    functions: Parts = frozenset()
    constants: Parts = frozenset()


class _Comparison(Struct, frozen=True, kw_only=True):
    test: str
    fixed: bool
    sides: tuple[Parts, Parts]
    nested: Parts = frozenset()  #: parts whose result is given to another one

    @property
    def parts(self) -> Parts:
        return self.sides[0] | self.sides[1]


def changed_parts(pairs: Mapping[str, tuple[str, str]]) -> ChangedParts:
    """Compare Python files, by path: their texts at the base and now."""
    found: tuple[set[Part], set[Part]] = (set(), set())
    for path, texts in pairs.items():
        try:
            before, now = (_definitions(parse_module(text)) for text in texts)
        except TROUBLES:
            continue
        for name in before.keys() & now.keys():
            if ast.dump(before[name]) != ast.dump(now[name]):
                kind = 0 if isinstance(now[name], FUNCTIONS) else 1
                found[kind].update((module, name) for module in modules([path]))
    return ChangedParts(functions=frozenset(found[0]), constants=frozenset(found[1]))


def _definitions(tree: ast.Module) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
    return found


def find_self_judging(
    sources: Mapping[str, str], states: States, changed: ChangedParts, product: Sequence[str]
) -> tuple[str, ...]:
    """Say which tests that were fixed judge a changed part of the product by another one, and nothing else does."""
    if not changed.functions | changed.constants:
        return ()
    known = modules(product)
    rows = [
        row for path, text in sources.items() if path.endswith(".py") for row in _comparisons(path, text, known, states)
    ]
    rows = rows[:MOST_COMPARISONS]
    pinned = {next(iter(row.parts)) for row in rows if len(row.parts) == 1}
    found: dict[str, Parts] = {}
    for row in rows:
        if row.fixed and (own := _self_judged(row, changed)) and not own & pinned:
            found[row.test] = own
    others = {row.test for row in rows if row.fixed and row.parts} - {*found}
    if not found or others:
        return ()
    test, parts = next(iter(found.items()))
    names = ", ".join(sorted(f"`{name}`" for _, name in parts))
    return (f"{test} judges the product by another part of it, which was changed as well: {names}",)


def _self_judged(row: _Comparison, changed: ChangedParts) -> Parts:
    """Return the changed parts that stand on the other side of a comparison, or give their results to others."""
    constants = row.parts & changed.constants
    if constants and row.parts - constants:
        return constants
    left, right = (side & changed.functions for side in row.sides)
    if left and right and left != right:
        return left | right
    inner = row.nested & changed.functions
    outer = (row.parts - row.nested) & changed.functions
    return inner | outer if inner and outer else frozenset()


def _comparisons(path: str, text: str, known: Mapping[str, str], states: States) -> Iterator[_Comparison]:
    try:
        tree = parse_module(text)
        reader = CallReader(tree, known)
        for name, node in _tests(tree):
            state = states.get((path, name))
            if state is not None:
                yield from _of_test(f"{path}::{'::'.join(name)}", node, reader, fixed=state == "fixed")
    except TROUBLES:
        return


def _tests(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name, each.name), each) for each in node.body if isinstance(each, FUNCTIONS))


def _of_test(test: str, node: ast.AST, reader: CallReader, *, fixed: bool) -> Iterator[_Comparison]:
    values = {
        each.targets[0].id: each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
    }
    for each in ast.walk(node):
        if (pair := _sides(each)) is not None:
            sides = tuple(_parts(side, reader, values) for side in pair)
            nested = frozenset(part for side in pair for part in _nested(side, reader, values))
            yield _Comparison(test=test, fixed=fixed, sides=(sides[0], sides[1]), nested=nested)


def _sides(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        return node.left, node.comparators[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) >= 2:
        return (node.args[0], node.args[1]) if node.func.attr in EQUALITIES else None
    return None


def _parts(node: ast.expr, reader: CallReader, values: Mapping[str, ast.expr], depth: int = 0) -> Parts:
    """Return the parts of the product that a value is made with; a local name stands for what it was given last."""
    found: set[Part] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and (part := reader.function(each)):
            found.add(part)
        if isinstance(each, ast.Name) and each.id in values and depth < 3:
            found |= _parts(values[each.id], reader, values, depth + 1)
    return frozenset(found)


def _nested(node: ast.expr, reader: CallReader, values: Mapping[str, ast.expr]) -> Iterator[Part]:
    """Return the parts of the product whose results another part of it is given."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and (outer := reader.function(each.func)):
            for argument in (*each.args, *(one.value for one in each.keywords)):
                yield from (part for part in _parts(argument, reader, values) if part != outer)
