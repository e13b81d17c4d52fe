"""`decide`, played to the end with random outcomes: it always ends, and never starts what it must not."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import Attempt, AttemptRecord, Failure, NodeState, RetryPolicy, Status
from corral.model.flow import AgentChoice, Edge, Flow, Node, Task
from corral.rules.schedule.actions import Action, FinishRun, Settle
from corral.rules.schedule.agent_tries import Begin, Park, ResumeAttempt, WaitUntil, taken_seconds
from corral.rules.schedule.decide import Schedule
from tests.rig.tries import tries

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
            Node(
                id=f"n{number}",
                task=task,
                agent=AgentChoice("a"),
                fallback=fallback,
                needs=tuple(map(Edge, sorted(needs))),
            )
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

    def turn(self) -> FinishRun | None:
        actions = self.decide()
        assert actions == self.decide(), "the same situation must be decided the same way"
        for action in actions:
            match action:
                case FinishRun():
                    assert not self.driven
                    return action
                case Begin():
                    self.begin(action)
                case Settle():
                    self.nodes[action.node].status = action.status
                case ResumeAttempt():
                    raise AssertionError("nothing was lost here")
                case WaitUntil():
                    self.now = max(self.now, action.time)
                case _:
                    raise AssertionError(f"nobody asked for {action}")
        if self.driven:
            self.end_one()
        return None

    def decide(self) -> list[Action]:
        schedule = Schedule(self.flow, RetryPolicy())
        schedule.load(self.nodes.values(), self.records)
        for record in self.records:
            if record.attempt.id in self.driven:
                schedule.note_attempt(record, driven=True)
        return schedule.decide(self.now)

    def begin(self, action: Begin) -> None:
        node = next(node for node in self.flow.nodes if node.id == action.node)
        assert all(self.nodes[need.node].status == "done" for need in node.needs), "started before its needs"
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
@settings(max_examples=tries(200), deadline=None)
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


def after(
    *records: AttemptRecord, policy: RetryPolicy | None = None, now: float = 0.0, stopping: str | None = None
) -> Sequence[Action]:
    flow = Flow(name="f", strategy="single", nodes=(Node(id="main", task=Task(prompt="x"), agent=AgentChoice("a")),))
    schedule = Schedule(flow, policy or RetryPolicy())
    schedule.load([NodeState(id="main")], records)
    if stopping:
        schedule.stop(stopping)
    return schedule.decide(now)


def test_an_attempt_that_nobody_drives_is_taken_up() -> None:
    record = AttemptRecord(attempt=Attempt(id="r-1", agent="a"), run="r", node="main", phase="collected")
    assert after(record) == [ResumeAttempt("r-1", record)]


def test_a_stop_starts_nothing_more() -> None:
    settle, finish = after(stopping="stopped by me")
    assert settle == Settle("main", "stopped", "stopped by me")
    assert isinstance(finish, FinishRun)


def over(
    number: int, *, started: float, ended: float, status: Status = "failed", until: float | None = None
) -> AttemptRecord:
    attempt = Attempt(
        id=f"r-{number}", agent="a", number=number, status=status, error=Failure("rate_limit", "slow down")
    )
    return AttemptRecord(
        attempt=attempt, run="r", node="main", phase="over", started=started, ended=ended, until=until
    )  # fmt: skip


def test_no_further_try_begins_when_all_of_them_took_too_long() -> None:
    policy = RetryPolicy(total_seconds=1000)
    tries = (over(1, started=0, ended=400), over(2, started=500, ended=900))
    assert isinstance(after(*tries, policy=policy, now=900)[0], WaitUntil)
    given_up, _ = after(*tries, policy=policy, now=1100)
    assert isinstance(given_up, Settle)
    assert "total_seconds (1000) are over" in (given_up.reason or "")


def test_time_in_which_nobody_drove_it_does_not_count() -> None:
    woken = over(1, started=0, ended=100, status="limited", until=0.0)
    lost = over(2, started=90_000, ended=90_100, status="stopped")
    tries = (woken, lost, over(3, started=180_000, ended=180_100))
    assert taken_seconds(tries, 180_150) == 350
    assert isinstance(after(*tries, policy=RetryPolicy(total_seconds=1000), now=180_200)[0], Begin)


def test_a_person_is_asked_what_a_quota_means_where_they_said_so() -> None:
    limited = over(1, started=0, ended=10, status="limited", until=60)
    policy = RetryPolicy(on_limit="ask")
    (parked,) = after(limited, policy=policy, now=10)
    assert isinstance(parked, Park)
    assert "corral resume" in parked.reason
    assert "1970-01-01T00:01:00" in parked.reason
    limited.until = 0.0  # the person has said: go on
    assert isinstance(after(limited, policy=policy, now=20)[0], Begin)


def test_a_person_may_wake_it_up_as_often_as_they_like() -> None:
    tries = [over(number, started=number, ended=number, status="limited", until=0.0) for number in range(1, 9)]
    assert isinstance(after(*tries, policy=RetryPolicy(), now=20)[0], Begin)
