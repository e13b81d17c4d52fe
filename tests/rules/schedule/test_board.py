"""How far a run is, from its events alone."""

from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    Condensed,
    Ended,
    Event,
    Limited,
    RunEvent,
    Said,
    Spent,
    StatusChanged,
    UserAsked,
)
from corral.model.flow import AgentChoice, Edge, Flow, Node, Task
from corral.rules.schedule.board import Board, BoardRow

FLOW = Flow(
    name="f",
    strategy="flow",
    nodes=(
        Node(id="land", kind="merge", task=Task(prompt=""), needs=(Edge("b"),)),
        Node(id="b", task=Task(prompt="", idle_seconds=100.0), needs=(Edge("a"),)),
        Node(id="a", task=Task(prompt=""), agent=AgentChoice("x")),
    ),
)


def heard(board: Board, at: float, event: Event, node: str | None = "b", attempt: str | None = "r-1") -> None:
    board.hear(RunEvent("r", node, attempt, event), at)


def begun(states: dict[str, str] | None = None) -> Board:
    board = Board("r", FLOW, states)  # type: ignore[arg-type]
    heard(board, 10.0, StatusChanged("attempt", "r-1", "running", "x, try 1"))
    return board


def rows(board: Board, now: float = 20.0) -> dict[str, BoardRow]:
    return {row.node: row for row in board.rows(now)}


def test_nodes_stand_in_the_order_of_the_graph() -> None:
    found = Board("r", FLOW).rows(0.0)
    assert [(row.node, row.layer, row.state, row.why) for row in found] == [
        ("a", 1, "waiting", "waits for a slot"),
        ("b", 2, "queued", "after a"),
        ("land", 3, "queued", "after b"),
    ]


def test_what_an_attempt_does() -> None:
    board = begun({"a": "done"})
    for event in (Said("hello"), Changed("x"), Changed("y"), Changed("x"), Spent(usd=0.5), CalledTool("edit", "x")):
        heard(board, 12.0, event)
    working = rows(board)["b"].working
    assert working
    assert (working.who, working.doing, working.usd) == ("x, try 1", "edit x", 0.5)
    assert list(working.files) == ["y", "x"]
    assert rows(board)["a"].state == "done"


def test_silence_makes_stale_and_a_word_ends_it() -> None:
    board = begun()
    assert rows(board, 60.0)["b"].state == "at work"
    assert rows(board, 61.0)["b"].state == "stale"
    heard(board, 61.0, Said("still here"))
    assert rows(board, 62.0)["b"].state == "at work"
    heard(board, 62.0, Ended(ok=True))  # its checks may take as long as they want
    assert rows(board, 999.0)["b"].state == "at work"


def test_who_waits_is_blocked_until_it_goes_on() -> None:
    for event, why in (
        (Asked("which?"), "waits for an answer: which?"),
        (UserAsked("", "which?"), "waits for an answer: which?"),
        (Limited("no more"), "waits for its quota: no more"),
    ):
        board = begun()
        heard(board, 11.0, event)
        heard(board, 12.0, Spent(usd=0.1))
        assert (rows(board)["b"].state, rows(board)["b"].why) == ("blocked", why)
        heard(board, 13.0, Said("on"))
        assert rows(board)["b"].state == "at work"


def test_a_gate_waits_for_its_answer() -> None:
    board = Board("r", FLOW)
    heard(board, 1.0, UserAsked("", "ok?"), "a", None)
    assert (rows(board)["a"].state, rows(board)["a"].why) == ("waiting", "ok?")
    heard(board, 2.0, StatusChanged("node", "a", "done"), "a", None)
    assert rows(board)["a"].state == "done"
    assert rows(board)["b"].why == "waits for a slot"


def test_money_of_turns_and_tries_adds_up() -> None:
    board = begun()
    heard(board, 11.0, Spent(usd=0.5))
    heard(board, 12.0, Condensed(1, "full", "s", "rules"))
    heard(board, 13.0, Spent(usd=0.25))
    assert board.spent_usd() == 0.75
    heard(board, 14.0, StatusChanged("attempt", "r-1", "failed"))
    assert (rows(board)["b"].usd, rows(board)["b"].seconds) == (0.75, 4.0)
    heard(board, 15.0, StatusChanged("attempt", "r-2", "running", "x, try 2"), attempt="r-2")
    heard(board, 16.0, Spent(usd=1.0), attempt="r-2")
    assert board.spent_usd() == 1.75


def test_what_the_ledger_says_of_a_node_counts_in_the_sum() -> None:
    board = begun()
    heard(board, 11.0, Spent(usd=0.5))
    heard(board, 12.0, StatusChanged("attempt", "r-1", "done"))
    board.note_cost("b", 0.75)  # it knows of more than the agent reported
    board.note_cost("b", 0.25)
    assert (rows(board)["b"].usd, board.spent_usd()) == (0.75, 0.75)


def test_between_two_tries_and_at_the_end() -> None:
    board = begun({"a": "done"})
    heard(board, 14.0, StatusChanged("attempt", "r-1", "failed"))
    assert (rows(board)["b"].state, rows(board)["b"].why) == ("waiting", "waits for its next try")
    heard(board, 15.0, StatusChanged("node", "b", "done", "proven"), attempt=None)
    assert (rows(board)["land"].state, rows(board)["land"].why) == ("running", "merges")


def test_items_stand_below_their_node_and_children_under_their_run() -> None:
    board = Board("r", FLOW)
    heard(board, 1.0, StatusChanged("attempt", "r-1", "running"), "b.0", "r-1")
    heard(board, 2.0, StatusChanged("attempt", "r-2", "running"), "b.1", "r-2")
    heard(board, 3.0, StatusChanged("attempt", "r-1", "done"), "b.0", "r-1")
    heard(board, 3.0, StatusChanged("node", "b.0", "done"), "b.0", None)
    board.hear(RunEvent("c", "main", "c-1", Said("hi")), 4.0)
    assert [row.node for row in board.rows(5.0)] == ["a", "b", "b.0", "b.1", "land", "c:main"]
    assert rows(board)["b"].why == "1 of 2 items so far"
    assert rows(board, 999.0)["b.1"].state == "stale"  # after half of what holds for its node


def test_one_node_needs_no_name() -> None:
    assert Board("r", FLOW).several
    assert not Board("r", Flow(name="f", strategy="single", nodes=(FLOW.nodes[2],))).several
