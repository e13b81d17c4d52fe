"""Checked calls of Python tests that depend on nothing but their own values."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from corral.rules.checks.outside.checked import CheckedCall, Name, State, States
from corral.rules.race.varied_calls import (
    TROUBLES,
    CallReader,
    Row,
    arguments_of,
    cross_rows,
    loop,
    parametrized_rows,
    plain_of,
)
from corral.rules.text.python_code import parse_module

EQUALITIES = frozenset({
    "assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
    "assertSequenceEqual", "assertMultiLineEqual", "assertIs",
})  # fmt: skip
#: What prepares a test's surroundings.
SETUP = re.compile(r"(?i)^(setup|set_up|asyncsetup|teardown|tear_down)")
PLAIN_BASES = frozenset({"TestCase", "unittest.TestCase", "object"})
RAISES = re.compile(r"(^|\.)(raises|assertRaises|assertRaisesRegex)$")
PATHS = re.compile(r"sys\.path\.(insert|append|extend)$")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def sets_up(text: str) -> bool:
    """Tell whether a file of fixtures prepares the surroundings of tests that do not ask for it."""
    try:
        tree = parse_module(text)
    except TROUBLES:
        return True
    return "autouse" in text or not all(map(_is_harmless, tree.body))


def found_in(path: str, text: str, known: Collection[str], states: States) -> list[CheckedCall]:
    """Return the checked calls of the tests of one file."""
    try:
        tree = parse_module(text)
        if sets_up(text) or any(isinstance(node, FUNCTIONS) and SETUP.match(node.name) for node in tree.body):
            return []
        reader = _Tests(CallReader(tree, known))
        return [each for name, body, rows in _tests(tree) if (state := states.get((path, name)))
                for each in reader.of(body, rows, state)]  # fmt: skip
    except TROUBLES:
        return []


def _is_harmless(node: ast.stmt) -> bool:
    """Tell whether a statement of a module defines something, and does nothing to its surroundings."""
    if isinstance(node, FUNCTIONS | ast.ClassDef | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If | ast.Try):  # `if __name__ == "__main__"`, imports of what may be missing
        blocks = [node.body, node.orelse, *(each.body for each in getattr(node, "handlers", ()))]
        main = isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        return main or all(_is_harmless(each) or isinstance(each, ast.Pass) for block in blocks for each in block)
    if isinstance(node, ast.Expr):
        value = node.value
        return isinstance(value, ast.Constant) or (
            isinstance(value, ast.Call) and bool(PATHS.search(ast.unparse(value.func)))
        )
    if isinstance(node, ast.Assign):
        names = all(isinstance(target, ast.Name) and target.id != "pytestmark" for target in node.targets)
        called = [ast.unparse(each.func) for each in ast.walk(node.value) if isinstance(each, ast.Call)]
        return names and all(re.search(r"(?i)path|dirname|join|resolve|set|param|parent", each) for each in called)
    return False


def _tests(tree: ast.Module) -> Iterator[tuple[Name, Sequence[ast.stmt], list[Row]]]:
    """Return the tests that need no fixture, with the rows of their parameters."""
    for node in tree.body:
        if isinstance(node, FUNCTIONS) and node.name.startswith("test"):
            if (rows := _rows(node, ())) is not None:
                yield (node.name,), node.body, rows
        elif isinstance(node, ast.ClassDef) and not node.decorator_list and _is_plain(node):
            for each in node.body:
                if isinstance(each, FUNCTIONS) and each.name.startswith("test"):
                    rows = _rows(each, ("self",))
                    if rows is not None:
                        yield (node.name, each.name), each.body, rows


def _is_plain(node: ast.ClassDef) -> bool:
    bases = all(ast.unparse(base) in PLAIN_BASES for base in node.bases)
    own = [each for each in node.body if isinstance(each, FUNCTIONS)]
    return bases and not node.keywords and not any(SETUP.match(each.name) for each in own)


def _rows(node: ast.FunctionDef | ast.AsyncFunctionDef, given: Sequence[str]) -> list[Row] | None:
    rows: list[Row] = [{}]
    for decorator in node.decorator_list:
        more = parametrized_rows(decorator)
        if not more:
            return None
        rows = cross_rows(rows, more)
    wanted = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} - {*given}
    plain = isinstance(node, ast.FunctionDef) and not node.args.vararg and not node.args.kwarg
    return rows if plain and all(wanted <= {*row} for row in rows) else None


class _Tests:
    """The checked calls of the tests of one file."""

    def __init__(self, reader: CallReader) -> None:
        self._reader = reader

    def of(self, body: Sequence[ast.stmt], rows: list[Row], state: State) -> list[CheckedCall]:
        found: list[CheckedCall] = []
        self._walk(body, rows, state, found)
        return found

    def _walk(self, body: Sequence[ast.stmt], rows: list[Row], state: State, found: list[CheckedCall]) -> bool:
        """Follow statements as far as they only compare; tell whether all of them do."""
        for node in body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, node.value
                if not self._is_plain(value, rows):
                    return False
                rows = [{**row, name: _resolve(value, row)} for row in rows]
            elif (pair := _compared_sides(node)) is not None:
                found += [each for row in rows if (each := self._checked_call(pair, row, state))]
            elif (inner := _block(node, rows)) is not None:
                if not self._walk(*inner, state, found):
                    return False
            elif not _is_quiet(node):
                return False
        return True

    def _is_plain(self, value: ast.expr, rows: list[Row]) -> bool:
        called = isinstance(value, ast.Call) and self._reader.function(value.func)
        return all(plain_of(value, row) is not None or (called and arguments_of(value, row)) for row in rows)  # type: ignore[arg-type]

    def _checked_call(self, pair: tuple[ast.expr, ast.expr], row: Row, state: State) -> CheckedCall | None:
        for one, other in (pair, pair[::-1]):
            call = row.get(one.id) if isinstance(one, ast.Name) else one
            expected = plain_of(other, row)
            if expected is None or not isinstance(call, ast.Call) or not (function := self._reader.function(call.func)):
                continue
            if arguments := arguments_of(call, row):
                module, name = function
                return CheckedCall(language="python", module=module, name=name, arguments=arguments, expected=expected,
                               state=state)  # fmt: skip
        return None


def _resolve(value: ast.expr, row: Row) -> ast.expr:
    """Return a value in which names of this row stand for what they are now."""
    if isinstance(value, ast.Call):
        args = [row.get(each.id, each) if isinstance(each, ast.Name) else each for each in value.args]
        return ast.Call(value.func, args, value.keywords)
    return row.get(value.id, value) if isinstance(value, ast.Name) else value


def _compared_sides(node: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides of a comparison by equality."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        if isinstance(node.test.ops[0], ast.Eq | ast.Is):
            return node.test.left, node.test.comparators[0]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) >= 2:
        func = node.value.func
        if isinstance(func, ast.Attribute) and func.attr in EQUALITIES:
            return node.value.args[0], node.value.args[1]
    return None


def _block(node: ast.stmt, rows: list[Row]) -> tuple[Sequence[ast.stmt], list[Row]] | None:
    """Return the statements below one that repeats or names them."""
    if isinstance(node, ast.For) and not node.orelse and (more := loop(node)):
        return node.body, cross_rows(rows, more)
    if isinstance(node, ast.With) and all(_manager_name(item).endswith("subTest") for item in node.items):
        return node.body, rows
    return None


def _is_quiet(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing to its surroundings: it may judge in another way."""
    if isinstance(node, ast.Assert | ast.Pass | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.With):
        return all(RAISES.search(_manager_name(item)) for item in node.items)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Constant) or (
        isinstance(call, ast.Call) and ast.unparse(call.func).startswith("self.assert")
    )


def _manager_name(item: ast.withitem) -> str:
    return ast.unparse(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else ""


def folders_above(path: str) -> list[str]:
    """Return the folders whose fixtures a test file gets."""
    return [str(each) for each in PurePosixPath(path).parents]
