"""Calls of product functions that tests make with plain values, and the same calls with other values."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct, structs

from corral.rules.text.python_code import literal_value, parse_expression, parse_module

MOST_CALLS = 40  #: varied calls of one race
MOST_OWN = 40  #: calls of the tests themselves
MOST_FOUND = 200  #: calls looked at in all tests
MOST_ROWS = 12  #: of one table of parameters
MOST_LENGTH = 300  #: characters of one call's arguments
MOST_NUMBER = 10**6
TROUBLES = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)

Row = Mapping[str, ast.expr]  #: what local names stand for


class ProductCall(Struct, frozen=True):
    """A call of a function of the product, with plain values."""

    module: str
    name: str  #: below its module, with dots
    arguments: str  #: as source: "1, b=[2, 3]"
    edge: bool = False  #: a value that a function may well refuse: less than zero, nothing, empty
    own: bool = False  #: as a test makes it, not varied

    @property
    def text(self) -> str:
        return f"{self.name}({self.arguments})"


def modules(paths: Iterable[str]) -> dict[str, str]:
    """Return the names by which changed Python files can be imported, each with the folder to import it from."""
    found: dict[str, str] = {}
    for path in paths:
        pure = PurePosixPath(path)
        if pure.suffix != ".py":
            continue
        parts = pure.with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        for start in range(len(parts)):
            own = parts[start:]
            if not all(part.isidentifier() for part in own):
                continue
            for end in range(1, len(own) + 1):  # a package may pass on what its modules have
                found.setdefault(".".join(own[:end]), "/".join(parts[:start]) or ".")
    return found


def found_in(sources: Iterable[str], known: Collection[str]) -> list[ProductCall]:
    """Return the calls of functions of the modules `known` that sources make with plain values, each once."""
    calls: dict[ProductCall, None] = {}
    for source in sources:
        try:
            reader = CallReader(parse_module(source), known)
            for call in itertools.islice(reader.calls(), MOST_FOUND):
                calls[call] = None
        except TROUBLES:
            continue
    return list(calls)[:MOST_FOUND]


class CallReader:
    """The calls of one source."""

    def __init__(self, tree: ast.Module, known: Collection[str]) -> None:
        self._tree = tree
        self._names: dict[str, tuple[str, str]] = {}  # local name -> module, name in it
        self._modules: dict[str, str] = {}  # as it is written -> module
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                for each in node.names:
                    local = each.asname or each.name
                    if f"{node.module}.{each.name}" in known:
                        self._modules[local] = f"{node.module}.{each.name}"
                    elif node.module in known:
                        self._names[local] = (node.module, each.name)
            elif isinstance(node, ast.Import):
                self._modules |= {each.asname or each.name: each.name for each in node.names if each.name in known}

    def calls(self) -> Iterator[ProductCall]:
        return self._of(self._tree.body, [{}])

    def _of(self, statements: Sequence[ast.stmt], rows: list[Row]) -> Iterator[ProductCall]:
        for statement in statements:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = rows
                for decorator in statement.decorator_list:
                    inner = cross_rows(inner, parametrized_rows(decorator))
                yield from self._of(statement.body, inner)
            elif isinstance(statement, ast.For):
                yield from self._of(statement.body, cross_rows(rows, loop(statement)))
            elif isinstance(statement, ast.ClassDef | ast.With | ast.If | ast.While | ast.Try):
                yield from self._of(statement.body, rows)
            else:
                yield from self._simple(statement, rows)
                rows = _assign(statement, rows)

    def _simple(self, statement: ast.stmt, rows: list[Row]) -> Iterator[ProductCall]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (function := self.function(node.func)):
                for row in rows:
                    if (arguments := arguments_of(node, row)) is not None:
                        yield ProductCall(*function, arguments)

    def function(self, func: ast.expr) -> tuple[str, str] | None:
        """Return the module and the name of a function of the product that is called."""
        if not isinstance(func, ast.Name | ast.Attribute):
            return None
        parts = ast.unparse(func).split(".")
        if not all(part.isidentifier() and not part.startswith("__") for part in parts):
            return None
        if parts[0] in self._names:
            module, name = self._names[parts[0]]
            return module, ".".join([name, *parts[1:]])
        for end in range(len(parts) - 1, 0, -1):
            if module := self._modules.get(".".join(parts[:end])):
                return module, ".".join(parts[end:])
        return None


def arguments_of(node: ast.Call, row: Row) -> str | None:
    """Return the arguments of a call as source, if all of them are plain values."""
    words: list[str] = []
    for argument in node.args:
        value = plain_of(argument, row)
        if value is None:
            return None
        words.append(value)
    for keyword in node.keywords:
        value = plain_of(keyword.value, row)
        if value is None or keyword.arg is None:
            return None
        words.append(f"{keyword.arg}={value}")
    text = ", ".join(words)
    return text if words and len(text) <= MOST_LENGTH else None


def plain_of(expression: ast.expr, row: Row) -> str | None:
    """Return a plain value as source; None: it is none."""
    if isinstance(expression, ast.Name) and expression.id in row:
        expression = row[expression.id]
    try:
        text = repr(ast.literal_eval(expression))
        literal_value(text)  # not so for what has no literal: too large a number, `...`
    except TROUBLES:
        return None
    return text


def cross_rows(rows: list[Row], more: list[Row]) -> list[Row]:
    """Return each row with each of the others."""
    made: list[Row] = [{**one, **other} for one in rows for other in more]
    return made[:MOST_ROWS] if more else rows


def parametrized_rows(decorator: ast.expr) -> list[Row]:
    """Return the rows of `pytest.mark.parametrize`."""
    if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize")):
        return []
    if len(decorator.args) < 2:
        return []
    try:
        names: Any = ast.literal_eval(decorator.args[0])
    except TROUBLES:
        return []
    if isinstance(names, str):
        names = [each.strip() for each in names.split(",") if each.strip()]
    return _rows([str(each) for each in names], decorator.args[1])


def loop(statement: ast.For) -> list[Row]:
    """Return the rows of a loop over plain values."""
    target = statement.target
    if isinstance(target, ast.Name):
        return _rows([target.id], statement.iter)
    if isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts):
        return _rows([cast("ast.Name", each).id for each in target.elts], statement.iter)
    return []


def _rows(names: Sequence[str], values: ast.expr) -> list[Row]:
    rows: list[Row] = []
    for value in values.elts[:MOST_ROWS] if isinstance(values, ast.List | ast.Tuple) else ():
        parts: Sequence[ast.expr] = [value]
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("param"):
            parts = value.args
        elif len(names) > 1:
            parts = value.elts if isinstance(value, ast.List | ast.Tuple) else ()
        if len(parts) == len(names):
            rows.append(dict(zip(names, parts, strict=True)))
    return rows


def _assign(statement: ast.stmt, rows: list[Row]) -> list[Row]:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return rows
    target = statement.targets[0]
    return [{**row, target.id: statement.value} for row in rows] if isinstance(target, ast.Name) else rows


# --- other values


def vary_calls(calls: Sequence[ProductCall]) -> tuple[ProductCall, ...]:
    """Return calls like these with other values of the same types, some of each."""
    known = {(call.module, call.text) for call in calls}
    queues = [_variants(call) for call in calls]
    found: dict[tuple[str, str], ProductCall] = {}
    while queues and len(found) < MOST_CALLS:
        for queue in list(queues):
            call = next(queue, None)
            if call is None:
                queues.remove(queue)
            elif (call.module, call.text) not in known:
                found.setdefault((call.module, call.text), call)
    return tuple(found.values())[:MOST_CALLS]


def with_own(calls: Sequence[ProductCall]) -> tuple[ProductCall, ...]:
    """Return calls of tests as they are, and varied; nothing where none can be varied."""
    others = vary_calls(calls)
    own = [structs.replace(call, own=True) for call in calls[:MOST_OWN]]
    return (*own, *others) if others else ()


def _variants(call: ProductCall) -> Iterator[ProductCall]:
    """Return a call with all values changed, then with one changed at a time; what may well be refused comes last."""
    node = cast("ast.Call", parse_expression(f"f({call.arguments})"))
    names = [None] * len(node.args) + [each.arg for each in node.keywords]
    values: list[Any] = [ast.literal_eval(each) for each in (*node.args, *(each.value for each in node.keywords))]
    changes = [_changes(value) for value in values]

    def make_call(others: Sequence[Any], *, edge: bool) -> ProductCall:
        words = [f"{name}={value!r}" if name else repr(value) for name, value in zip(names, others, strict=True)]
        return ProductCall(call.module, call.name, ", ".join(words), edge)

    for edge in (False, True):
        options = [[value for value, at_edge in each if at_edge == edge] for each in changes]
        for turn in range(max(map(len, options), default=0)):
            if not edge:
                yield make_call(
                    [each[(turn + place) % len(each)] if each else values[place] for place, each in enumerate(options)],
                    edge=False,
                )
            for place, each in enumerate(options):
                if turn < len(each):
                    yield make_call([*values[:place], each[turn], *values[place + 1 :]], edge=edge)


def _changes(value: Any) -> list[tuple[Any, bool]]:  # noqa: ANN401 -- any plain value
    """Return other values of the same type, and whether a function may well refuse them."""
    found: list[tuple[Any, bool]] = []
    if isinstance(value, bool):
        found = [(not value, False)]
    elif isinstance(value, int | float):
        if abs(value) <= MOST_NUMBER:
            raised = [value + 1, value * 2, value + 3, value - 1]
            found = [(each, each <= 0 < value) for each in raised]
            found += [(-value, True), (value * 0, True)]
    elif isinstance(value, str):
        found = [(value[::-1], False), (value.swapcase(), False), (value + value[:1], False), (value + value, False)]
        found += [(value[:-1], len(value) <= 1), ("", True)]
    elif isinstance(value, list | tuple):
        made, items = type(cast("list[Any]", value)), list(cast("list[Any]", value))
        first = [[other, *items[1:]] for other, edge in _changes(items[0]) if not edge] if items else []
        found = [(made(each), False) for each in (items[::-1], [*items, *items[-1:]], *first[:2])]
        found += [(made(items[:-1]), len(items) <= 1), (made(), True)]
    elif isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        found = [
            ({**table, key: other}, False)
            for key, old in table.items()
            for other, edge in _changes(old)[:2]
            if not edge
        ]
        found.append(({}, True))
    same = repr(cast("object", value))
    return [(each, edge) for each, edge in found if repr(each) != same]
