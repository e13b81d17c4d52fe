"""Where the nodes of a flow are in a picture, and how the lines between them run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from corral.model.flow import Flow, Node, On

MARGIN = 10
GAP_X, GAP_Y, GAP_WRAPPED = 60, 22, 24
MOST_HIGH = 12  #: nodes under one another; a column with more is as many columns beside one another


class NodeRect(Struct, frozen=True):
    """The place of one node."""

    x: int
    y: int
    width: int
    height: int


class EdgeLine(Struct, frozen=True, kw_only=True):
    """The way from one node to one that needs it."""

    start: str
    end: str
    on: On
    path: str
    x: int  #: where its words are
    y: int


class Picture(Struct, frozen=True, kw_only=True):
    width: int
    height: int
    spots: Mapping[str, NodeRect]
    lines: tuple[EdgeLine, ...]


def layers(flow: Flow) -> list[list[Node]]:
    """Put nodes into columns: each right of all it needs."""
    depth = dict.fromkeys((node.id for node in flow.nodes), 0)
    after: dict[str, list[str]] = {name: [] for name in depth}
    waits = dict.fromkeys(depth, 0)
    for node in flow.nodes:
        for edge in node.needs:
            after[edge.node].append(node.id)
            waits[node.id] += 1
    ready = [name for name, count in waits.items() if not count]
    for name in ready:  # grows
        for following in after[name]:
            depth[following] = max(depth[following], depth[name] + 1)
            waits[following] -= 1
            if not waits[following]:
                ready.append(following)
    columns: list[list[Node]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in flow.nodes:
        columns[depth[node.id]].append(node)
    return columns


def picture(flow: Flow, width: int, heights: Mapping[str, int]) -> Picture:
    """Place every node; `heights` says how high each is."""
    x, spots, bottom = MARGIN, dict[str, NodeRect](), 0
    for column in _order_columns(layers(flow)):
        for part in _wrap_column(column):
            y = MARGIN
            for node in part:
                spots[node.id] = NodeRect(x, y, width, heights[node.id])
                y += heights[node.id] + GAP_Y
            bottom = max(bottom, y - GAP_Y)
            x += width + GAP_WRAPPED
        x += GAP_X - GAP_WRAPPED
    lines = tuple(
        _line(edge.node, node.id, edge.on, spots) for node in flow.nodes for edge in node.needs if edge.node in spots
    )
    return Picture(width=x - GAP_X + MARGIN, height=bottom + MARGIN, spots=spots, lines=lines)


def _order_columns(columns: list[list[Node]]) -> Iterator[list[Node]]:
    """Put nodes beside those they need, so that fewer lines cross."""
    places: dict[str, float] = {}
    for column in columns:
        wanted = [_beside(node, places, place) for place, node in enumerate(column)]
        ordered = [column[place] for place in sorted(range(len(column)), key=wanted.__getitem__)]
        middle = (len(ordered) - 1) / 2
        places |= {node.id: place - middle for place, node in enumerate(ordered)}
        yield ordered


def _beside(node: Node, places: Mapping[str, float], otherwise: int) -> float:
    before = [places[edge.node] for edge in node.needs]
    return sum(before) / len(before) if before else float(otherwise)


def _wrap_column(column: Sequence[Node]) -> Iterator[Sequence[Node]]:
    parts = -(-len(column) // MOST_HIGH)
    most = -(-len(column) // max(1, parts))
    for start in range(0, len(column), max(1, most)):
        yield column[start : start + most]


def _line(start: str, end: str, on: On, spots: Mapping[str, NodeRect]) -> EdgeLine:
    a, b = spots[start], spots[end]
    x, y, to_x, to_y = a.x + a.width, a.y + min(a.height, 74) // 2, b.x, b.y + min(b.height, 74) // 2
    bend = max(24, (to_x - x) // 2)
    path = f"M{x},{y} C{x + bend},{y} {to_x - bend},{to_y} {to_x},{to_y}"
    return EdgeLine(start=start, end=end, on=on, path=path, x=(x + to_x) // 2, y=(y + to_y) // 2)
