"""The items that a node is done for: lists in the file, the combinations of a `matrix`, and the node for one item."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import structs

from corral.model.flow import Node
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.table import FlowTable
from corral.rules.flows.tree import Position

MOST_ITEMS = 1000  #: of one for_each, or of one matrix
MOST_PRODUCT = 100_000  #: combinations that are looked at before some are excluded
SIDE = ("include", "exclude")  #: keys of a matrix that name no axis
HINT = "matrix: {os: [linux, macos], py: [3.11, 3.12]}"

ITEM = frozenset({"item", "index", "matrix"})  #: names that only an item of a list knows

Row = dict[str, Any]


def combinations(axes: Mapping[str, Sequence[Any]], include: Sequence[Row], exclude: Sequence[Row]) -> list[Row]:
    """Return the rows of a matrix, in the order of its axes.

    A row that has all values of an entry of `exclude` is left out. An entry of `include` is added to every row whose
    axes it does not contradict; one that fits no row is a row of its own.
    """
    names = list(axes)
    rows: list[Row] = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes.values())]
    rows = [row for row in rows if names and not any(_has(row, entry) for entry in exclude)]
    own: list[Row] = []
    for entry in include:
        named = {name: value for name, value in entry.items() if name in axes}
        fitting = [row for row in rows if _has(row, named)]
        for row in fitting:
            row.update(entry)
        if not fitting:
            own.append(dict(entry))
    return [*rows, *own]


def items_of(value: Any, *, matrix: bool) -> list[Any]:
    """Return the items that a value of an earlier node stands for: a list, or for a matrix also a table of axes."""
    if matrix and isinstance(value, dict):
        value = _matrix_rows(cast("dict[str, Any]", value))
    if not isinstance(value, list):
        text = ", but text: does its node say `output: json`?" if isinstance(value, str) else ""
        raise ExpressionError(f"it is no list{text}")
    found = cast("list[Any]", value)
    if len(found) > MOST_ITEMS:
        raise ExpressionError(f"it has more than {MOST_ITEMS} items")
    if matrix and not all(isinstance(item, dict) for item in found):
        raise ExpressionError("a matrix is a table of lists, or a list of tables")
    return found


def _matrix_rows(value: Row) -> list[Row]:
    axes = {name: values for name, values in value.items() if name not in SIDE}
    include, exclude = (cast("list[Any]", value.get(name) or []) for name in SIDE)
    for name, values in (*axes.items(), (SIDE[0], include), (SIDE[1], exclude)):
        if not isinstance(values, list):
            raise ExpressionError(f"`{name}` of the matrix is no list")
    if not all(isinstance(entry, dict) for entry in [*include, *exclude]):
        raise ExpressionError("`include` and `exclude` of a matrix are lists of tables")
    if math.prod(len(values) for values in axes.values()) > MOST_PRODUCT:
        raise ExpressionError(f"it has more than {MOST_ITEMS} items")
    return combinations(axes, include, exclude)


def _has(row: Row, entry: Row) -> bool:
    return all(name in row and _same(row[name], value) for name, value in entry.items())


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other  # 1 is not true


def read_list(table: FlowTable) -> tuple[Any, ...] | None:
    """Read a list that is written out under `for_each`."""
    place = table.entries["for_each"][1]
    items = cast("list[Position]", place.value)
    if len(items) > MOST_ITEMS:
        table.wrong(f"`for_each` has {len(items)} items", f"at most {MOST_ITEMS}", "for_each")
        return ()
    return tuple(item.as_written(decimals=True) for item in items)


def read_matrix(table: FlowTable) -> tuple[Row, ...] | None:
    """Read a matrix; None, if there is none or it is wrong."""
    if not table.has("matrix"):
        return None
    if not isinstance(table.entries["matrix"][1].value, dict):
        table.wrong("`matrix` is a table of lists", HINT, "matrix")
        return ()
    matrix = table.table("matrix") or table
    axes = {name: _axis(matrix, name) for name in matrix.entries if name not in SIDE}
    include, exclude = (_entries(matrix, name) for name in SIDE)
    if any(values is None for values in axes.values()) or include is None or exclude is None:
        return ()
    return _rows(matrix, {name: values or [] for name, values in axes.items()}, include, exclude)


def _rows(matrix: FlowTable, axes: Mapping[str, list[Any]], include: list[Row], exclude: list[Row]) -> tuple[Row, ...]:
    size = math.prod(len(values) for values in axes.values()) if axes else 0
    if size > MOST_PRODUCT:
        matrix.wrong(f"`matrix` has {size} combinations", f"at most {MOST_ITEMS}")
        return ()
    for place, entry in zip(matrix.items("exclude"), exclude, strict=True):
        _look_at_excluded(matrix, place, entry, axes)
    rows = combinations(axes, include, exclude)
    if not rows:
        matrix.wrong("`matrix` has no combination", HINT)
    if len(rows) > MOST_ITEMS:
        matrix.wrong(f"`matrix` has {len(rows)} combinations", f"at most {MOST_ITEMS}")
        return ()
    return tuple(rows)


def _look_at_excluded(matrix: FlowTable, place: Position, entry: Row, axes: Mapping[str, list[Any]]) -> None:
    """Report what can never match: a name that is no axis, a value that its axis does not have."""
    for name, value in entry.items():
        if name not in axes:
            matrix.wrong_at(place, f"`exclude` names `{name}`, which is no axis", "axes: " + ", ".join(axes))
        elif not any(_same(value, each) for each in axes[name]):
            known = ", ".join(str(each) for each in axes[name][:12])
            matrix.wrong_at(place, f"`exclude`: `{name}` has no value `{value}`", f"it has: {known}")


def _axis(matrix: FlowTable, name: str) -> list[Any] | None:
    place = matrix.entries[name][1]
    if not re.fullmatch(r"[A-Za-z][\w-]{0,63}", name):
        matrix.wrong(f"`{name}` cannot be the name of an axis", "letters, digits, - and _; a letter first", name)
        return None
    given = cast("list[Position]", place.value) if isinstance(place.value, list) else []
    if not given:
        hint = f"{name}: [a, b]; what an earlier node makes is a whole matrix: `matrix: NODE.output`"
        matrix.wrong(f"`{name}` of `matrix` is a list of values", hint, name)
        return None
    values = [each.as_written(decimals=True) for each in given]
    for at, value in enumerate(values):
        if any(_same(value, each) for each in values[:at]):
            matrix.wrong(f"`{name}` of `matrix` has `{value}` twice", "", name)
            return None
    return values


def _entries(matrix: FlowTable, name: str) -> list[Row] | None:
    if not matrix.has(name):
        return []
    place = matrix.entries[name][1]
    items = cast("list[Position]", place.value) if isinstance(place.value, list) else []
    rows = [cast("Row", row) for item in items if isinstance(row := item.as_written(decimals=True), dict)]
    if not rows or len(rows) != len(items) or not all(rows):
        matrix.wrong(f"`{name}` of `matrix` is a list of tables", f"{name}: [{{os: linux, py: 3.12}}]", name)
        return None
    return rows


def item_of(node: Node, place: int) -> Node:
    """Return the node that does one item of a list; a condition that names the item is asked of each."""
    when = node.when if node.when and asks_item(node.when) else None
    return structs.replace(
        node, id=f"{node.id}.{place}", needs=(), when=when, around=(), for_each=None, items=None, matrix=False
    )


def asks_item(words: str) -> bool:
    """Tell whether a condition of a node with many items is about one of them."""
    return bool(Expression(words).names() & ITEM)
