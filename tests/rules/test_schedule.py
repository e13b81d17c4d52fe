"""`decide`, played to the end with random outcomes: it always ends, and never starts what it must not."""

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.flow import AgentChoice, Flow, Node, Task
from corral.model import Attempt, AttemptRecord, Failure, NodeState, RetryPolicy, Status
from corral.rules.schedule import Begin, Finish, GoOn, Settle, Situation, WaitUntil, decide

OUTCOMES: list[tuple[Status, str | None]] = [
    ("done", None), ("limited", "rate_limit"), ("failed", "network"), ("failed", "check_failed"), ("failed", "auth"), ("timed_out", "crash"),
    ("over_budget", None), ("stopped", "crash"),
]  # fmt: skip


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    count = draw(st.integers(1, 12))
    nodes: list[Node] = []
    for number in range(count):
        needs = draw(st.sets(st.sampled_from([node.id for node in nodes]), max_size=3)) if nodes else set[str]()
        task = Task(prompt="x", retries=draw(st.none() | st.integers(0, 3)), budget_usd=draw(st.none() | st.just(2.5)))
        fallback = tuple(AgentChoice(name) for name in draw(st.lists(st.sampled_from("bcd"), max_size=2, unique=True)))
        nodes.append(
            Node(id=f"n{number}", task=task, agent=AgentChoice("a"), fallback=fallback, needs=tuple(sorted(needs)))
        )
    return Flow(name="f", strategy="x", nodes=tuple(nodes))


class Play:
    """Acts on decisions as the engine would, with outcomes drawn at random."""

    def __init__(self, flow: Flow, outcomes: list[int]) -> None:
        self.flow, self.outcomes = flow, outcomes
        self.nodes = {node.id: NodeState(id=node.id) for node in flow.nodes}
        self.records: list[AttemptRecord] = []
        self.driven: set[str] = set()
        self.now, self.step = 0.0, 0

    def turn(self) -> Finish | None:
        situation = Situation(
            flow=self.flow, nodes=list(self.nodes.values()), attempts=self.records, driven=frozenset(self.driven),
            retry=RetryPolicy(), now=self.now,
        )  # fmt: skip
        actions = decide(situation)
        assert actions == decide(situation), "the same situation must be decided the same way"
        for action in actions:
            match action:
                case Finish():
                    assert not self.driven
                    return action
                case Begin():
                    self.begin(action)
                case Settle():
                    self.nodes[action.node].status = action.status
                case GoOn():
                    raise AssertionError("nothing was lost here")
                case WaitUntil():
                    self.now = max(self.now, action.time)
        if self.driven:
            self.end_one()
        return None

    def begin(self, action: Begin) -> None:
        node = next(node for node in self.flow.nodes if node.id == action.node)
        assert all(self.nodes[need].status == "done" for need in node.needs), "started before its needs"
        assert all(record.phase == "over" for record in self.records if record.node == node.id), "two at once"
        attempt = Attempt(
            id=f"r-{len(self.records) + 1}", agent=action.agent.name, number=action.number, retry_of=action.retry_of
        )
        self.records.append(AttemptRecord(attempt=attempt, run="r", node=node.id, phase="working"))
        self.driven.add(attempt.id)

    def end_one(self) -> None:
        name = sorted(self.driven)[self.outcomes[self.step % len(self.outcomes)] % len(self.driven)]
        status, kind = OUTCOMES[self.outcomes[self.step % len(self.outcomes)] % len(OUTCOMES)]
        if status == "stopped" and self.step > 60:
            status, kind = "failed", "auth"  # an engine does not die for ever
        self.step += 1
        record = next(record for record in self.records if record.attempt.id == name)
        record.phase, record.ended = "over", self.now
        record.until = self.now + 100 * (self.step % 7) if status == "limited" else None
        record.attempt.status = status
        record.attempt.error = Failure(kind, "") if kind else None  # type: ignore[arg-type]
        self.driven.discard(name)


@given(flows(), st.lists(st.integers(0, 100), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_every_run_ends(flow: Flow, outcomes: list[int]) -> None:
    play = Play(flow, outcomes)
    for _ in range(2000):
        finish = play.turn()
        if finish:
            break
    else:
        raise AssertionError("the run does not end")
    statuses = {node.status for node in play.nodes.values()}
    assert not statuses & {"queued", "running"}
    assert (finish.status == "done") == (statuses == {"done"})


def situation(record: AttemptRecord | None, stopping: str | None = None) -> Situation:
    flow = Flow(name="f", strategy="single", nodes=(Node(id="main", task=Task(prompt="x"), agent=AgentChoice("a")),))
    return Situation(
        flow=flow, nodes=[NodeState(id="main")], attempts=[record] if record else [], driven=frozenset(),
        retry=RetryPolicy(), stopping=stopping,
    )  # fmt: skip


def test_an_attempt_that_nobody_drives_is_taken_up() -> None:
    record = AttemptRecord(attempt=Attempt(id="r-1", agent="a"), run="r", node="main", phase="collected")
    assert decide(situation(record)) == [GoOn("r-1")]


def test_a_stop_starts_nothing_more() -> None:
    assert decide(situation(None, "stopped by me")) == [Settle("main", "stopped", "stopped by me")]
