"""A made-up output for a node that declares no shape: one that has all that other nodes ask of it."""

from __future__ import annotations

from typing import Any, cast

from corral.model.flow import Flow, Node
from corral.rules.flows.expressions import Expression, Wrong
from corral.rules.flows.validate import paths_of

SOME = "..."  #: stands for any value


def guess(flow: Flow, name: str) -> Any:
    """Return an output of a node that fits what the nodes beside it ask for; a list has one item."""
    folder, _, last = name.rpartition("/")
    root: dict[str, Any] = {}
    for node in flow.nodes:
        if node.id.rpartition("/")[0] != folder:
            continue
        for path in paths_of(node):
            if path[:2] == (last, "output"):
                _put(root, path[1:], SOME)
        path = _list_path(node)
        if path[:2] == (last, "output"):
            _put(root, path[1:], [_item(node)])
    return root.get("output", SOME)


def _list_path(node: Node) -> tuple[str, ...]:
    try:
        return Expression(node.for_each).whole_path() if node.for_each else ()
    except Wrong:
        return ()


def _item(node: Node) -> Any:
    root: dict[str, Any] = {}
    for path in paths_of(node):
        if path[0] in ("item", "matrix"):
            _put(root, ("item", *path[1:]), SOME)
    return root.get("item", {} if node.matrix else SOME)


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value at a path; what is there already and says more stays."""
    for name in path[:-1]:
        if not isinstance(table.get(name), dict):
            table[name] = {}
        table = cast("dict[str, Any]", table[name])
    if table.get(path[-1], SOME) == SOME or isinstance(value, list):
        table[path[-1]] = value
