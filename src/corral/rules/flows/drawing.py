"""A flow as a picture: lines for a terminal, Mermaid, SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from corral.model.flow import Flow, Node
from corral.rules.flows.layout import EdgeLine, NodeRect, layers, picture

SIGNS = {"done": "+", "failed": "x", "timed_out": "x", "running": ">", "waiting": "?", "skipped": "-", "queued": "."}
ARROWS = {"success": "-->", "failure": "-. failure .->", "always": "-. always .->"}
COLOURS = {"done": "#2e7d32", "failed": "#c62828", "timed_out": "#c62828", "running": "#1565c0", "waiting": "#ef6c00"}
WIDTH, HEIGHT = 190, 44
ENDED = "/"  #: the lane below a node that nothing needs, free after one row; no node is called so
MOST_LANES = 12


def text(flow: Flow, states: Mapping[str, str] | None = None) -> list[str]:
    """Return a graph for a terminal, one line for each node: lines lead down to those that need it.

    A graph of too many lanes would be a thicket: there, a number says what may start together.
    """
    columns = layers(flow)
    nodes = [node for column in columns for node in column]
    signs = {name: SIGNS.get(status, ".") for name, status in (states or {}).items()}
    rows = _rows(nodes, signs)
    if max(map(len, rows), default=0) > 2 * MOST_LANES:
        rows = [f"{place:>2} {signs.get(node.id, ' ')}" for place, column in enumerate(columns, 1) for node in column]
    width, wide = max((len(node.id) for node in nodes), default=0), max(map(len, rows), default=0)
    lines: list[str] = []
    for node, row in zip(nodes, rows, strict=True):
        needs = ", ".join(edge.node + (f" ({edge.on})" if edge.on != "success" else "") for edge in node.needs)
        after = f"  after {needs}" if needs else ""
        lines.append(f"  {row:<{wide}}  {node.id:<{width}}  {what(node)}{after}")
    return lines


def _rows(nodes: Sequence[Node], signs: Mapping[str, str]) -> list[str]:
    """Draw each node between the lanes of those above it that nodes below it still need."""
    last = {edge.node: place for place, node in enumerate(nodes) for edge in node.needs}
    lanes: list[str] = []
    rows: list[str] = []
    for place, node in enumerate(nodes):
        wanted = {edge.node for edge in node.needs}
        needed = [lane for lane, name in enumerate(lanes) if name in wanted]
        ends = [lane for lane in needed if last[lanes[lane]] == place]
        free = [lane for lane, name in enumerate(lanes) if not name]
        own = (ends or free or [len(lanes)])[0]  # in the lane of one that nothing else needs: a chain is one column
        lanes += [""] * (own == len(lanes))
        rows.append(_row(lanes, own, dict.fromkeys(needed, "+") | dict.fromkeys(ends, "'"), signs.get(node.id, "o")))
        lanes = ["" if lane in ends or name == ENDED else name for lane, name in enumerate(lanes)]
        lanes[own] = node.id if node.id in last else ENDED
        if len(lanes) > 2 * MOST_LANES:
            return [" " * (2 * MOST_LANES + 1)] * len(nodes)
    return rows


def _row(lanes: Sequence[str], own: int, joints: Mapping[int, str], sign: str) -> str:
    """Draw one node: `+` is a lane that continues below, `'` one that ends here."""
    marks = {own: sign}
    first, last = min([own, *joints]), max([own, *joints])
    signs = [
        marks.get(at) or joints.get(at) or ("|" if name not in ("", ENDED) else "") for at, name in enumerate(lanes)
    ]
    across = ["-" if first <= at < last else " " for at in range(len(lanes))]
    return "".join((mark or ("-" if first < at < last else " ")) + across[at] for at, mark in enumerate(signs)).rstrip()


def what(node: Node) -> str:
    """Say in a few words what a node does."""
    match node.kind:
        case "task":
            agents = ", ".join(str(agent) for agent in (node.agent, *node.rivals) if agent.name)
            words = f"{'race: ' if node.rivals else ''}{agents or 'agent'}"
            words += f" as {node.task.role}" if node.task.role else ""
            words += " plans" if node.planning else ""
        case "run":
            words = f"runs `{node.program.name if node.program else node.task.prompt}`"
        case "gate":
            words = f"asks: {node.task.prompt}"
        case "merge":
            words = f"merges{f' into {node.merge.into}' if node.merge and node.merge.into else ''}"
        case "plan":
            words = "runs what is planned"
        case _:
            words = "joins"
    extra = [f"for each of {node.for_each}"] if node.for_each else []
    if node.items is not None:
        extra = [f"for each of {len(node.items)} {'combinations' if node.matrix else 'items'}"]
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
    """Return a picture that needs nothing else: no script, no font, no style sheet.

    A page that shows it may colour it: what it is made of has classes, and style sheets count more than attributes.
    """
    drawn = picture(flow, WIDTH, dict.fromkeys((node.id for node in flow.nodes), HEIGHT))
    size = f'viewBox="0 0 {drawn.width} {drawn.height}" width="{drawn.width}" height="{drawn.height}"'
    head = f'class="flow" {size} font-family="sans-serif" font-size="12" role="img" aria-label="{escape(flow.name)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head}>', *map(_line, drawn.lines)]
    parts += [_box(node, drawn.spots[node.id], (states or {}).get(node.id, "queued")) for node in flow.nodes]
    return "\n".join([*parts, "</svg>"])


def _line(line: EdgeLine) -> str:
    dashes = "" if line.on == "success" else ' stroke-dasharray="4 3"'
    drawn = f'<path class="edge {line.on}" d="{line.path}" fill="none" stroke="#888"{dashes}/>'
    if line.on == "success":
        return drawn
    words = f'<text class="edge-words" x="{line.x}" y="{line.y - 4}" text-anchor="middle" font-size="10" fill="#555">'
    return f"{drawn}{words}{line.on}</text>"


def _box(node: Node, spot: NodeRect, status: str) -> str:
    x, y = spot.x, spot.y
    colour = COLOURS.get(status, "#666")
    words = what(node)
    return (
        f'<g class="node {status}"><title>{escape(node.id)}: {escape(words)} ({status})</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff" stroke="{colour}" '
        'stroke-width="2"/>'
        f'<text class="name" x="{x + 8}" y="{y + 18}" font-weight="bold">{escape(_cut(node.id, 24))}</text>'
        f'<text class="words" x="{x + 8}" y="{y + 35}" fill="#555">{escape(_cut(words, 30))}</text></g>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
