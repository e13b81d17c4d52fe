"""What can be wrong between nodes: needs that are nobody's, circles, names that cannot be known."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

from corral.model.errors import shorten_name
from corral.model.flow import Flow, Node
from corral.rules.flows import fill_text
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.table import Mistakes
from corral.rules.flows.tree import Position

JSON_HINT = "add `output: json` to it, if it prints JSON"
MOST_LISTED = 12  #: names in a hint
FIELDS = ("status", "reason", "output", "commit", "branch", "files_changed", "cost_usd", "agent")  #: of a node's result


def check(
    flow: Flow, prefix: str, places: Mapping[str, Position], nested: Mapping[str, Node], mistakes: Mistakes
) -> None:
    """Look at the nodes of one file; `nested` are those that stand for other files, whose own were looked at before."""
    own = [nested.get(node.id, node) for node in flow.nodes if node.id in places]
    nodes = {node.id: node for node in own}
    for node in own:
        _needs(node, nodes, prefix, places[node.id], mistakes)
    circle = circle_in(own)
    if circle:
        names = " -> ".join(name.removeprefix(prefix) for name in circle)
        mistakes.add(places[circle[0]], f"nodes need each other in a circle: {names}", "leave one of these needs out")
        return
    above = NodeAncestors(own, prefix)
    inputs = {name.removeprefix(prefix) for name in flow.inputs if "/" not in name.removeprefix(prefix)}
    for node in own:
        _names(node, above, inputs, places[node.id], mistakes)
        of_items = item_names(node)
        for path in paths_of(node):
            if path[0] in of_items:
                _check_item_path(path, node, places[node.id], mistakes)
            elif path[0] not in inputs and above.has(node.id, path[0]):
                _check_path(path, nodes[prefix + path[0]], places[node.id], mistakes)
        _check_list(node, nodes, prefix, places[node.id], mistakes)
        _check_list_input(node, flow, prefix, places[node.id], mistakes)
    shares = [node.share for node in own if node.share is not None]
    if sum(shares) > 1.001:
        place = places[next(node.id for node in own if node.share is not None)]
        mistakes.add(place, f"the shares of the budget come to {100 * sum(shares):.0f} %", "100 in all, or less")


def circle_in(nodes: Iterable[Node]) -> list[str]:
    """Return a circle of needs, its first node again at the end; or nothing."""
    needs = {node.id: [edge.node for edge in node.needs] for node in nodes}
    done: set[str] = set()
    for start, first in needs.items():
        path: list[str] = []
        on_path: set[str] = set()
        steps = [(start, iter(first))] if start not in done else []
        while steps:
            name, rest = steps[-1]
            if name not in on_path:
                path.append(name)
                on_path.add(name)
            following = next((need for need in rest if need in needs and need not in done), None)
            if following is None:
                done.add(name)
                on_path.discard(path.pop())
                steps.pop()
            elif following in on_path:
                return [*path[path.index(following) :], following][::-1]
            else:
                steps.append((following, iter(needs[following])))
    return []


def _needs(node: Node, nodes: Mapping[str, Node], prefix: str, place: Position, mistakes: Mistakes) -> None:
    seen: set[str] = set()
    for edge in node.needs:
        name = edge.node.removeprefix(prefix)
        if edge.node == node.id:
            mistakes.add(place, f"`{name}` needs itself")
        elif edge.node not in nodes:
            known = short_list(other.removeprefix(prefix) for other in nodes if other != node.id)
            mistakes.add(place, f"`{node.id.removeprefix(prefix)}` needs `{name}`, which is no node", f"known: {known}")
        elif edge.node in seen:
            mistakes.add(place, f"`{node.id.removeprefix(prefix)}` needs `{name}` twice")
        seen.add(edge.node)


def short_list(names: Iterable[str]) -> str:
    """Return names for a hint: not more than a user reads."""
    few = list(islice(names, MOST_LISTED + 1))
    return ", ".join(few[:MOST_LISTED]) + (", ..." if len(few) > MOST_LISTED else "")


class NodeAncestors:
    """All that comes before each node: one bit for each, for a long chain has many."""

    def __init__(self, nodes: Iterable[Node], prefix: str) -> None:
        needs = {node.id: [edge.node for edge in node.needs] for node in nodes}
        self._prefix = prefix
        self._place = {name: place for place, name in enumerate(needs)}
        self._bits: dict[str, int] = {}
        steps = list(needs)
        while steps:
            name = steps[-1]
            missing = [need for need in needs[name] if need in needs and need not in self._bits]
            if missing and name not in self._bits:
                steps += missing
                continue
            steps.pop()
            found = 0
            for need in needs[name]:
                found |= self._bits.get(need, 0) | (1 << self._place[need] if need in needs else 0)
            self._bits[name] = found

    def has(self, node: str, name: str) -> bool:
        """Tell whether the node called `name` comes before this one."""
        place = self._place.get(self._prefix + name)
        return place is not None and bool(self._bits[node] >> place & 1)

    def names(self, node: str) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name, place in self._place.items() if self._bits[node] >> place & 1)


def item_names(node: Node) -> set[str]:
    """Return the names that only the items of a node know."""
    return ({"item", "index"} if node.fans_out else set[str]()) | ({"matrix"} if node.matrix else set[str]())


def _names(node: Node, above: NodeAncestors, inputs: set[str], place: Position, mistakes: Mistakes) -> None:
    _check_unfilled(node, above, inputs, place, mistakes)
    own = item_names(node)
    known = inputs | {"nodes"} | own
    asked: list[tuple[str, set[str], set[str]]] = []
    for key, text in (("when", node.when), (_list_key(node), node.for_each)):
        asked += [(key, _of(text), known - (own if key != "when" else set[str]()))] if text else []
    if node.repeat and node.repeat.until != "checks":
        asked.append(("until", _of(node.repeat.until), known | {"output", "attempt"}))
    if node.kind != "merge":
        try:
            asked.append(("with" if node.kind == "join" else node.kind, fill_text.names(node.task.prompt), known))
            asked += [("checks", fill_text.names(check), known) for check in node.task.checks]
        except ExpressionError:
            return  # reported where the text was read
    for key, names, allowed in asked:
        for name in sorted(names - allowed):
            if above.has(node.id, name):
                continue
            hint = _known_here(name, [*sorted(allowed - {"nodes"}), *above.names(node.id)])
            mistakes.add(
                place, f"`{key}` of `{node.id.rpartition('/')[2]}` names `{name}`, which is not known there", hint
            )


def _check_unfilled(node: Node, above: NodeAncestors, inputs: set[str], place: Position, mistakes: Mistakes) -> None:
    """Look whether the items in the file hold a place that a text would have filled: they are taken as they are."""
    for text in fill_text.texts_in(node.items or ()):
        try:
            named = sorted(name for name in fill_text.names(text) if name in inputs or above.has(node.id, name))
        except ExpressionError:
            continue
        if named:
            key = _list_key(node)
            words = f"`{key}` of `{node.id.rpartition('/')[2]}`: `{shorten_name(text)}` is not filled in"
            mistakes.add(place, words, f"write {{{{{named[0]}}}}} in the node's text, or name a list: `{key}: NAME`")
            return


def _known_here(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean `{near[0]}`?" if near else "known here: " + (short_list(names) or "nothing")


def paths_of(node: Node) -> list[tuple[str, ...]]:
    """Return everything that a node's texts and expressions ask for."""
    found: list[tuple[str, ...]] = []
    expressions = (node.when, node.for_each, node.repeat.until if node.repeat else None)
    with contextlib.suppress(ExpressionError):  # reported where it was read
        found += [path for text in expressions if text for path in Expression(text).paths()]
    if node.kind != "merge":
        with contextlib.suppress(ExpressionError):
            found += [path for text in (node.task.prompt, *node.task.checks) for path in fill_text.paths(text)]
    return found


def _check_path(path: tuple[str, ...], of: Node, place: Position, mistakes: Mistakes) -> None:
    """Look whether a node has what is asked of it: one of its fields, and of its output what it declares."""
    if len(path) > 1 and path[1] not in FIELDS:
        mistakes.add(place, f"`{path[0]}.{path[1]}` is nothing that a node has", f"known: {', '.join(FIELDS)}")
        return
    shape = of.output or {}
    if len(path) > 2 and path[1] == "output" and of.kind == "run" and of.output is None and not of.fans_out:
        mistakes.add(place, f"the output of `{path[0]}` is text, it has no `{path[2]}`", JSON_HINT)
        return
    whole = of.fans_out or of.reduce or shape.get("additionalProperties") is True
    if len(path) < 3 or path[1] != "output" or shape.get("type") != "object" or whole:
        return
    fields = sorted(shape.get("properties", {}))
    if path[2] not in fields:
        mistakes.add(place, f"the output of `{path[0]}` has no `{path[2]}`", f"it has: {short_list(fields)}")


def _check_item_path(path: tuple[str, ...], node: Node, place: Position, mistakes: Mistakes) -> None:
    """Look whether all items that are in the file have the field that is asked of them."""
    if node.items is None or len(path) < 2 or path[0] == "index":
        return
    tables = [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in node.items]
    without = sum(path[1] not in table for table in tables)
    if without:
        fields = sorted({name for table in tables for name in table})
        some = f"{without} of {len(tables)} " if without < len(tables) else ""
        kind = "combinations" if node.matrix else "items"
        words = f"`{path[0]}.{path[1]}`: {some or 'all '}{kind} have no `{path[1]}`"
        mistakes.add(place, words, f"they have: {short_list(fields) or 'no fields'}")


def _check_list(node: Node, nodes: Mapping[str, Node], prefix: str, place: Position, mistakes: Mistakes) -> None:
    """Look whether `for_each` can be a list, as far as the node whose output it is says so."""
    try:
        path = Expression(node.for_each).whole_path() if node.for_each else ()
    except ExpressionError:
        return
    of = nodes.get(prefix + path[0]) if len(path) > 1 and path[1] == "output" else None
    if of is None or of.fans_out or of.reduce:
        return
    words = f"`{_list_key(node)}`: `{'.'.join(path)}` is no list"
    if of.kind == "run" and of.output is None and len(path) == 2:
        mistakes.add(place, f"{words}, but the text that `{path[0]}` prints", JSON_HINT)
    shape: Mapping[str, Any] = of.output or {}
    for name in path[2:]:
        shape = cast("Mapping[str, Any]", shape.get("properties", {})).get(name, {})
    kind = shape.get("type")
    if isinstance(kind, str) and kind != "array" and not (node.matrix and kind == "object"):
        mistakes.add(place, f"{words}, but {kind}", "name a list of it")


def _check_list_input(node: Node, flow: Flow, prefix: str, place: Position, mistakes: Mistakes) -> None:
    """Look whether an input that `for_each` names is a list; one without a value, or filled later, may be."""
    try:
        path = Expression(node.for_each).whole_path() if node.for_each else ()
    except ExpressionError:
        return
    if len(path) != 1:
        return
    name = path[0]
    value = flow.inputs.get(prefix + name)
    later = isinstance(value, str) and (value == f"<{name}>" or "{{" in value)
    if value is not None and not later and not isinstance(value, list | dict if node.matrix else list):
        mistakes.add(
            place,
            f"`{_list_key(node)}`: the input `{name}` is no list",
            f"give it a list as its default: {name}: {{default: [a]}}",
        )


def _list_key(node: Node) -> str:
    return "matrix" if node.matrix else "for_each"


def _of(text: str) -> set[str]:
    try:
        return Expression(text).names()
    except ExpressionError:
        return set()
