"""A flow as a picture: lines for a terminal, Mermaid, SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from corral.flow import Flow, Node

SIGNS = {"done": "+", "failed": "x", "timed_out": "x", "running": ">", "waiting": "?", "skipped": "-", "queued": "."}
ARROWS = {"success": "-->", "failure": "-. failure .->", "always": "-. always .->"}
COLOURS = {"done": "#2e7d32", "failed": "#c62828", "timed_out": "#c62828", "running": "#1565c0", "waiting": "#ef6c00"}
WIDTH, HEIGHT, GAP_X, GAP_Y = 190, 44, 60, 22


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


def text(flow: Flow, states: Mapping[str, str] | None = None) -> list[str]:
    """Return one line for each node, those that may start together under one another."""
    shown = states or {}
    width = max((len(node.id) for node in flow.nodes), default=0)
    lines: list[str] = []
    for place, column in enumerate(layers(flow)):
        for node in column:
            needs = ", ".join(edge.node + (f" ({edge.on})" if edge.on != "success" else "") for edge in node.needs)
            sign = SIGNS.get(shown.get(node.id, "queued"), ".") if shown else " "
            after = f"  after {needs}" if needs else ""
            lines.append(f"{place + 1:>3} {sign} {node.id:<{width}}  {what(node)}{after}")
    return lines


def what(node: Node) -> str:
    """Say in a few words what a node does."""
    match node.kind:
        case "task":
            agents = ", ".join(str(agent) for agent in (node.agent, *node.rivals) if agent.name)
            words = f"{'race: ' if node.rivals else ''}{agents or 'agent'}"
            words += f" as {node.task.role}" if node.task.role else ""
        case "run":
            words = f"runs `{node.task.prompt}`"
        case "gate":
            words = f"asks: {node.task.prompt}"
        case "merge":
            words = f"merges{f' into {node.merge.into}' if node.merge and node.merge.into else ''}"
        case _:
            words = "joins"
    extra = [f"for each of {node.for_each}"] if node.for_each else []
    extra += [f"if {node.when}"] if node.when else []
    extra += [f"repeats until {node.repeat.until}, at most {node.repeat.most} times"] if node.repeat else []
    return words + (f" ({'; '.join(extra)})" if extra else "")


def outline(flow: Flow) -> dict[str, object]:
    """Return a flow's shape for programs."""
    return {
        "name": flow.name,
        "budget_usd": flow.budget_usd,
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind,
                "what": what(node),
                "agents": [str(agent) for agent in (node.agent, *node.rivals) if agent.name],
                "needs": [{"node": edge.node, "on": edge.on} for edge in node.needs],
            }
            for node in flow.nodes
        ],
    }


def mermaid(flow: Flow) -> str:
    names = {node.id: f"n{place}" for place, node in enumerate(flow.nodes)}
    lines = ["graph LR"]
    for node in flow.nodes:
        label = f"{node.id}<br/>{what(node)}".replace('"', "#quot;")
        lines.append(f'  {names[node.id]}["{label}"]')
    lines += [f"  {names[edge.node]} {ARROWS[edge.on]} {names[node.id]}" for node in flow.nodes for edge in node.needs]
    return "\n".join(lines)


def svg(flow: Flow, states: Mapping[str, str] | None = None) -> str:
    """Return a picture that needs nothing else: no script, no font, no style sheet."""
    columns = layers(flow)
    places = {
        node.id: (x * (WIDTH + GAP_X) + 10, y * (HEIGHT + GAP_Y) + 10)
        for x, column in enumerate(columns)
        for y, node in enumerate(column)
    }
    wide = len(columns) * (WIDTH + GAP_X) + 20
    high = max((len(column) for column in columns), default=1) * (HEIGHT + GAP_Y) + 20
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">']
    parts += [_line(places[edge.node], places[node.id], edge.on) for node in flow.nodes for edge in node.needs]
    parts += [_box(node, places[node.id], (states or {}).get(node.id, "queued")) for node in flow.nodes]
    return "\n".join([*parts, "</svg>"])


def _line(start: Sequence[int], end: Sequence[int], on: str) -> str:
    x, y = start[0] + WIDTH, start[1] + HEIGHT // 2
    to_x, to_y = end[0], end[1] + HEIGHT // 2
    dashes = "" if on == "success" else ' stroke-dasharray="4 3"'
    bend = (x + to_x) // 2
    return f'<path d="M{x},{y} C{bend},{y} {bend},{to_y} {to_x},{to_y}" fill="none" stroke="#888"{dashes}/>'


def _box(node: Node, place: Sequence[int], status: str) -> str:
    x, y = place
    colour = COLOURS.get(status, "#666")
    words = what(node)
    short = words if len(words) <= 30 else words[:29] + "…"
    return (
        f"<g><title>{escape(node.id)}: {escape(words)} ({status})</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff" stroke="{colour}" '
        'stroke-width="2"/>'
        f'<text x="{x + 8}" y="{y + 18}" font-weight="bold">{escape(node.id)}</text>'
        f'<text x="{x + 8}" y="{y + 35}" fill="#555">{escape(short)}</text></g>'
    )
