"""Where nodes stand in a picture: right of what they need, none on another, whatever the graph."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model.flow import Edge, Flow, Node, Task
from corral.rules.flows import drawing
from corral.rules.flows.layout import picture
from tests.rig.tries import tries

WIDTH = 100


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    count = draw(st.integers(1, 40))
    nodes = []
    for number in range(count):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        on = draw(st.sampled_from(("success", "failure", "always")))
        edges = tuple(Edge(f"n{other}", on) for other in sorted(needs))
        nodes.append(Node(id=f"n{number}", task=Task(prompt="do"), needs=edges))
    return Flow(name="any", strategy="flow", nodes=tuple(nodes))


@settings(max_examples=tries(60), deadline=None)
@given(flows(), st.lists(st.integers(20, 90), min_size=40, max_size=40))
def test_nodes_stand_right_of_what_they_need_and_never_on_another(flow: Flow, sizes: list[int]) -> None:
    heights = {node.id: sizes[place] for place, node in enumerate(flow.nodes)}
    drawn = picture(flow, WIDTH, heights)
    spots = drawn.spots
    assert set(spots) == set(heights)
    for node in flow.nodes:
        for edge in node.needs:
            assert spots[edge.node].x + WIDTH < spots[node.id].x
    placed = sorted(spots.values(), key=lambda spot: (spot.x, spot.y))
    for one, two in pairwise(placed):
        assert one.x + WIDTH < two.x or (one.x == two.x and one.y + one.height < two.y)
    assert max(spot.x + spot.width for spot in placed) < drawn.width
    assert max(spot.y + spot.height for spot in placed) < drawn.height
    assert len(drawn.lines) == sum(len(node.needs) for node in flow.nodes)


def test_a_drawing_stands_alone_and_may_be_coloured_by_a_page() -> None:
    nodes = (
        Node(id="build", task=Task(prompt="do")),
        Node(id="mend <it>", task=Task(prompt="do"), needs=(Edge("build", "failure"),)),
    )
    drawn = drawing.svg(Flow(name="any", strategy="flow", nodes=nodes), {"build": "failed"})
    assert 'class="node failed"' in drawn
    assert 'stroke="#c62828"' in drawn
    assert 'class="edge failure"' in drawn
    assert ">failure</text>" in drawn
    assert "<it>" not in drawn


def drawn_edges(rows: list[str], names: list[str]) -> set[tuple[str, str]]:
    """Read a drawn graph as its reader does: lanes lead down, dashes lead aside."""
    lanes: dict[int, str] = {}
    found: set[tuple[str, str]] = set()
    for row, name in zip(rows, names, strict=True):
        own = row.index("o")
        joined = [at for at, mark in enumerate(row) if mark in "+'"]
        found |= {(lanes[at], name) for at in joined}
        if own in lanes:
            found.add((lanes[own], name))
        lanes = {at: lanes[at] for at in lanes if row[at : at + 1] in ("|", "+")}
        lanes[own] = name
    return found


@settings(max_examples=tries(60), deadline=None)
@given(flows())
def test_a_graph_on_a_terminal_says_who_needs_whom(flow: Flow) -> None:
    lines = drawing.text(flow)
    if lines[0].lstrip().startswith("1"):  # too many lanes to draw
        return
    wide = min(line.index(next(node.id for node in flow.nodes if f"  {node.id} " in line)) for line in lines)
    rows = [line[2 : wide - 1].rstrip() for line in lines]
    names = [line[wide:].split()[0] for line in lines]
    assert drawn_edges(rows, names) == {(edge.node, node.id) for node in flow.nodes for edge in node.needs}


def test_a_graph_on_a_terminal() -> None:
    shape = {"a": "", "b": "a", "c": "a", "d": "bc", "e": "", "f": "de"}
    nodes = tuple(
        Node(id=name, task=Task(prompt="do"), needs=tuple(Edge(need) for need in needs))
        for name, needs in shape.items()
    )
    flow = Flow(name="small", strategy="flow", nodes=nodes)
    assert [line.split("  agent")[0].rstrip() for line in drawing.text(flow)] == [
        "  o      a",
        "  | o    e",
        "  +-|-o  b",
        "  o | |  c",
        "  o-|-'  d",
        "  o-'    f",
    ]
    many = [Node(id=f"n{each}", task=Task(prompt="do")) for each in range(40)]
    join = Node(id="all", task=Task(prompt="do"), needs=tuple(Edge(node.id) for node in many))
    wide = Flow(name="wide", strategy="flow", nodes=(*many, join))
    assert [line.split()[:2] for line in drawing.text(wide)][-2:] == [["1", "n39"], ["2", "all"]]
