"""`Schedule` over random graphs and outcomes: it always ends, keeps order and limits, and resuming changes nothing."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import OPEN, Attempt, AttemptRecord, Failure, NodeState, RetryPolicy, Status
from corral.model.flow import AgentChoice, Edge, Flow, Kind, Node, Repeat, Task
from corral.rules.schedule.actions import AskAtGate, Expand, FinishRun, RunLimits, Settle, StartMerge
from corral.rules.schedule.agent_tries import Begin, ResumeAttempt, WaitUntil
from corral.rules.schedule.decide import Schedule
from corral.rules.schedule.progress import FAILED_ENDS
from tests.rig.tries import tries

POLICY = RetryPolicy(most=1, delay_seconds=1.0, total_seconds=1e9)
ROWS = ({"os": "a"}, {"os": "b"}, {"os": "c"})
OUTCOMES: tuple[Status, ...] = ("done", "done", "done", "failed", "timed_out", "limited")


class World:
    """Carries actions out as an engine would, and remembers what it stored."""

    def __init__(self, flow: Flow, seed: int, limits: RunLimits) -> None:
        self.flow, self.seed, self.limits = flow, seed, limits
        self.states: dict[str, NodeState] = {node.id: NodeState(id=node.id) for node in flow.nodes}
        self.records: dict[str, AttemptRecord] = {}
        self.begun: list[str] = []
        self.now = 0.0
        self.finish: FinishRun | None = None
        self._fresh()

    def _fresh(self) -> None:
        """Start an engine anew: all it knows is what is stored."""
        self.schedule = Schedule(self.flow, POLICY, self.limits)
        self.schedule.load(list(self.states.values()), [*self.records.values()])
        self.working: list[str] = []

    def outcome(self, record: AttemptRecord) -> Status:
        """The same for the same node and try, whenever it is carried out."""
        return random.Random(f"{self.seed} {record.node} {record.lane} {record.attempt.number}").choice(OUTCOMES)

    def run(self, chance: random.Random, *, crashes: bool) -> None:
        for _ in range(20_000):
            actions = self.schedule.decide(self.now)
            waits = [action.time for action in actions if isinstance(action, WaitUntil)]
            for action in actions:
                self._do(action)
            if self.finish:
                return
            assert len(self.working) <= self.limits.parallel
            if crashes and chance.random() < 0.05:
                self._fresh()
            elif self.working:
                self._end(self.working.pop(chance.randrange(len(self.working))))
            elif waits:
                self.now = max(self.now, min(waits))
            else:
                assert actions, "nothing is at work, nothing is decided, and it is not over"
        pytest.fail("it does not end")

    def _do(self, action: object) -> None:
        match action:
            case Begin(node=node, agent=agent, lane=lane, number=number):
                self._may_start(node)
                name = f"r-{len(self.records) + 1}"
                attempt = Attempt(id=name, agent=agent.name, number=number, status="running")
                record = AttemptRecord(attempt=attempt, run="r", node=node, lane=lane, phase="working")
                self.records[name] = record
                self.states[node].status = "running"
                self.begun.append(node)
                self.working.append(name)
                self.schedule.note_attempt(record, driven=True)
            case ResumeAttempt(attempt=name):
                assert name not in self.working
                self.working.append(name)
                self.schedule.note_attempt(self.records[name], driven=True)
            case Settle(node=node, status=status, reason=reason, winner=winner, why=why):
                assert self.states[node].status in OPEN
                self.states[node] = NodeState(id=node, status=status, reason=reason, winner=winner, why=why)
            case Expand(nodes=nodes):
                for node in nodes:
                    self.states.setdefault(node.id, NodeState(id=node.id))
            case AskAtGate(node=node) | StartMerge(node=node):
                for each in self.schedule.end_node(Settle(node, "done")):
                    self._do(each)
            case FinishRun():
                self.finish = action
            case _:
                assert isinstance(action, WaitUntil)

    def _may_start(self, name: str) -> None:
        node = next((each for each in self.flow.nodes if each.id == name), None)
        for edge in node.needs if node else ():
            status = self.states[edge.node].status
            assert status not in OPEN
            assert edge.on != "success" or status == "done"
            assert edge.on != "failure" or status in FAILED_ENDS

    def _end(self, name: str) -> None:
        record = self.records[name]
        status = self.outcome(record)
        record.phase, record.ended, record.attempt.status = "over", self.now, status
        record.attempt.error = Failure("network", "down") if status in ("failed", "limited") else None
        self.schedule.note_attempt(record, driven=False)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    count = draw(st.integers(1, 40))
    nodes: list[Node] = []
    for place in range(count):
        above = draw(st.lists(st.integers(0, place - 1), max_size=3, unique=True)) if place else []
        needs = tuple(
            Edge(f"n{up}", draw(st.sampled_from(["success", "success", "failure", "always"]))) for up in above
        )
        kind: Kind = draw(st.sampled_from(["task", "task", "task", "run", "gate", "merge", "join"]))
        when = draw(
            st.sampled_from([None, None, "true", "false", f"nodes.n{above[0]}.status == 'done'" if above else None])
        )
        each = draw(st.sampled_from([None, None, None, "[1, 2]", "[]"])) if kind == "task" else None
        items = draw(st.sampled_from([None, None, None, None, ROWS])) if kind in ("task", "run") and not each else None
        if items and when is None:
            when = draw(st.sampled_from([None, "matrix.os == 'a' or index == 2", "item.os == 'z'"]))
        repeat = (
            Repeat(most=3, delay_seconds=draw(st.sampled_from([0.0, 5.0]))) if kind == "run" and place % 2 else None
        )
        rivals = draw(st.sampled_from([(), (), (AgentChoice("b"),)])) if kind == "task" else ()
        nodes.append(
            Node(
                id=f"n{place}",
                kind=kind,
                task=Task(prompt=""),
                agent=AgentChoice("a"),
                rivals=rivals,
                needs=needs,
                when=when,
                for_each=each,
                items=items,
                matrix=items is not None,
                repeat=repeat,
            )
        )
    return Flow(name="f", strategy="flow", nodes=tuple(nodes), on_failure=draw(st.sampled_from(["continue", "stop"])))


@settings(max_examples=tries(200), deadline=None)
@given(flows(), st.integers(0, 10**6), st.integers(1, 5))
def test_every_flow_ends_in_order_and_within_limits(flow: Flow, seed: int, parallel: int) -> None:
    world = World(flow, seed, RunLimits(parallel=parallel))
    world.run(random.Random(seed), crashes=False)
    assert all(state.status not in OPEN for state in world.states.values())


@settings(max_examples=tries(150), deadline=None)
@given(flows(), st.integers(0, 10**6))
def test_neither_the_order_of_ends_nor_crashes_change_what_becomes_of_a_flow(flow: Flow, seed: int) -> None:
    if flow.on_failure == "stop":
        return  # what it stops depends on who fails first
    first, second = World(flow, seed, RunLimits(parallel=1)), World(flow, seed, RunLimits(parallel=5))
    first.run(random.Random(seed), crashes=False)
    second.run(random.Random(seed + 1), crashes=True)
    assert {name: state.status for name, state in first.states.items()} == {
        name: state.status for name, state in second.states.items()
    }
    assert first.finish == second.finish
    alone = {node.id for node in flow.nodes if not node.rivals}  # a race may be decided before everybody has begun
    assert sorted(name for name in first.begun if name in alone) == sorted(
        name for name in second.begun if name in alone
    )


def test_a_stop_settles_everything() -> None:
    nodes = (Node(id="a", task=Task(prompt="")), Node(id="b", task=Task(prompt=""), needs=(Edge("a"),)))
    schedule = Schedule(Flow(name="f", strategy="flow", nodes=nodes), POLICY)
    assert [type(action) for action in schedule.decide(0.0)] == [Begin]
    record = AttemptRecord(attempt=Attempt(id="r-1", agent="", status="running"), run="r", node="a", phase="working")
    schedule.note_attempt(record, driven=True)
    schedule.stop("enough")
    assert schedule.decide(0.0) == [Settle("b", "stopped", "enough")]
    record.phase, record.attempt.status = "over", "stopped"
    schedule.note_attempt(record, driven=False)
    assert schedule.decide(0.0) == [Settle("a", "stopped", "enough"), FinishRun("stopped", "enough")]


def test_what_comes_after_a_list_goes_on_from_its_items_also_after_a_crash() -> None:
    task, agent = Task(prompt="x"), AgentChoice("a")
    nodes = (
        Node(id="each", task=task, agent=agent, for_each="[1, 2]"),
        Node(id="after", task=Task(prompt="{{each.output}}"), agent=agent, needs=(Edge("each"),)),
    )
    flow = Flow(name="f", strategy="flow", nodes=nodes, fills=True)
    states = [NodeState(id="each", status="done"), NodeState(id="after")]
    records: list[AttemptRecord] = []
    for place in range(2):
        attempt = Attempt(id=f"r-{place}", agent="a", status="done", commit=f"c{place}", output=f"said {place}")
        records.append(AttemptRecord(attempt=attempt, run="r", node=f"each.{place}", phase="over"))
        states.append(NodeState(id=f"each.{place}", status="done", winner=attempt.id))
    schedule = Schedule(flow, POLICY)
    schedule.load(states, records)
    (begin,) = schedule.decide(0.0)
    assert isinstance(begin, Begin)
    assert begin.node == "after"
    assert schedule.heads("after", "base") == ("c0", "c1")
    assert schedule.node("after").task.prompt == '["said 0","said 1"]'


def test_who_waits_longest_for_a_slot_begins_first_and_one_busy_agent_holds_up_no_other() -> None:
    kinds = ("a", "a", "b", "a", "b")
    nodes = tuple(Node(id=f"n{n}", task=Task(prompt="x"), agent=AgentChoice(kind)) for n, kind in enumerate(kinds))
    schedule = Schedule(
        Flow(name="f", strategy="flow", nodes=nodes), POLICY, RunLimits(parallel=2, per_agent={"a": 1, "b": 2})
    )
    schedule.load((), ())
    order: list[str] = []
    working: list[AttemptRecord] = []
    while True:
        for action in schedule.decide(0.0):
            if isinstance(action, Begin):
                order.append(action.node)
                attempt = Attempt(id=f"r-{len(order)}", agent=action.agent.name, status="done")
                working.append(AttemptRecord(attempt=attempt, run="r", node=action.node, phase="over"))
                schedule.note_attempt(working[-1], driven=True)
            elif isinstance(action, FinishRun):
                assert order == ["n0", "n2", "n1", "n4", "n3"]
                return
        schedule.note_attempt(working.pop(0), driven=False)


class Busy:
    """What other runs leave: so many seats of any agent."""

    def __init__(self, left: int) -> None:
        self.left = left

    def free(self, agent: str) -> bool:
        return bool(agent) and self.left > 0

    def take(self, agent: str) -> None:
        assert self.free(agent)
        self.left -= 1


def test_attempts_that_go_on_wait_for_slots_that_others_took_meanwhile() -> None:
    nodes = tuple(Node(id=f"n{n}", task=Task(prompt="x"), agent=AgentChoice("a")) for n in range(3))
    records = [
        AttemptRecord(attempt=Attempt(id=f"r-{n}", agent="a", status="running"), run="r", node=f"n{n}", phase="working")
        for n in range(2)
    ]
    room = Busy(1)
    schedule = Schedule(Flow(name="f", strategy="flow", nodes=nodes), POLICY, RunLimits(parallel=2), room)
    schedule.load([NodeState(id=node.id, status="running") for node in nodes[:2]], records)
    (first,) = schedule.decide(0.0)
    assert isinstance(first, ResumeAttempt)
    schedule.note_attempt(first.record, driven=True)
    assert schedule.decide(0.0) == []
    assert schedule.waiting == {"a": 1}
    room.left = 1
    (second,) = schedule.decide(0.0)
    assert isinstance(second, ResumeAttempt)
    assert {first.attempt, second.attempt} == {"r-0", "r-1"}
    schedule.note_attempt(second.record, driven=True)
    for record in records:
        record.phase, record.attempt.status = "over", "done"
        schedule.note_attempt(record, driven=False)
    room.left = 1
    assert [action.node for action in schedule.decide(0.0) if isinstance(action, Begin)] == ["n2"]
