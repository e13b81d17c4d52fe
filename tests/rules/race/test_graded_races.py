"""Races are ranked by grade first; what is not proven better is chosen by a judge or the user, never by size."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from corral.model import (
    GRADES,
    Attempt,
    AttemptRecord,
    CheckResult,
    Cost,
    Doubt,
    Evidence,
    EvidenceDetail,
    Failure,
    Grade,
    NodeState,
    RetryPolicy,
    SteeringFile,
)
from corral.model.flow import AgentChoice, Edge, Flow, Node, Task
from corral.rules.race import early_stop, llm_judge, second_reader, select
from corral.rules.race.early_stop import Race
from corral.rules.schedule.actions import Action, Choose, FinishRun, Lower, Settle
from corral.rules.schedule.agent_tries import Begin
from corral.rules.schedule.decide import Schedule
from corral.rules.text import questions

CHECK = CheckResult(command="pytest", exit_code=0, seconds=0.1)
READER = AgentChoice("reader")


def attempt(number: int, grade: Grade | None = "unharmed", **more: object) -> Attempt:
    made = Attempt(
        id=f"r-{number}",
        agent=f"agent{number}",
        status="done",
        checks=(CHECK,),
        files_changed=("a",),
        insertions=5,
        commit=f"c{number}",
        evidence=Evidence(grade=grade) if grade else None,
    )
    return structs.replace(made, **more)


def over(number: int, lane: int, grade: Grade | None = "unharmed", **more: object) -> AttemptRecord:
    return AttemptRecord(
        attempt=attempt(number, grade, **more), run="r", node="n", phase="over", lane=lane, tree=f"t{number}"
    )


def race_node(**more: object) -> Node:
    node = Node(id="n", task=Task(prompt="x", checks=("pytest",), retries=0), agent=AgentChoice("agent1"))
    return structs.replace(structs.replace(node, rivals=(AgentChoice("agent2"),)), **more)


def decided(node: Node, records: Sequence[AttemptRecord], now: float = 10.0) -> list[Action]:
    schedule = Schedule(Flow(name="f", strategy="race", nodes=(node,)), RetryPolicy())
    schedule.load([NodeState(id="n", status="running")], records)
    return schedule.decide(now)


def settled(actions: Sequence[Action]) -> Settle:
    return next(each for each in actions if isinstance(each, Settle))


# --- order


def test_the_grade_comes_before_everything_else() -> None:
    group = [attempt(number, grade, insertions=number) for number, grade in enumerate(reversed(GRADES[:-1]), 1)]
    ranking = select.rank(group)
    assert ranking.order == ("r-4", "r-3", "r-2", "r-1"), "held-out, proven, unharmed, unchecked"
    assert ranking.why == "its check passes; the best evidence"
    assert ranking.reasons["r-2"] == "weaker evidence: unharmed, against proven"


@pytest.mark.parametrize("how", ["cheapest", "first"])
def test_what_the_user_asked_to_go_by_counts_more_than_the_grade(how: select.How) -> None:
    proven = attempt(1, "proven", cost=Cost(0.9), seconds=9.0)
    quick = attempt(2, "unharmed", cost=Cost(0.1), seconds=1.0)
    assert select.rank([proven, quick], how).winner == "r-2"


def test_attempts_of_before_grades_are_ranked_as_they_were() -> None:
    assert select.rank([attempt(1, None, insertions=9), attempt(2, None)]).winner == "r-2"
    assert select.undecided_attempts([attempt(1, None, insertions=9), attempt(2, None)], {}) == ()


# --- ties


def test_an_unharmed_tie_waits_for_the_user() -> None:
    [action] = decided(race_node(), [over(1, 0, insertions=90), over(2, 1, insertions=1)])
    assert isinstance(action, Choose)
    assert [each.id for each in action.attempts] == ["r-1", "r-2"]
    asked = questions.choice_question(("r", "n"), action.attempts, 99.0)
    assert asked.choices == ("r-1", "r-2", "none")
    assert (asked.default, asked.deadline, asked.about) == ("none", 99.0, "choice")
    assert asked.text == "none is proven better: choose one of r-1 (agent1), r-2 (agent2)"


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (over(1, 0, "proven"), over(2, 1, insertions=1), "r-1"),
        (over(1, 0, "unchecked"), over(2, 1, "unchecked", insertions=1), "r-2"),
        (over(1, 0, "proven"), over(2, 1, "proven", insertions=1), "r-2"),
        (over(1, 0), over(2, 1, status="failed", error=Failure("check_failed", "no")), "r-1"),
        (over(1, 0), over(2, 1, scores={"speed": 3.0}), "r-2"),
        (structs.replace(over(1, 0), tree="same"), structs.replace(over(2, 1), tree="same"), "r-1"),
    ],
    ids=["one is proven", "no checks", "both proven", "a single survivor", "a scorer decides", "equal trees"],
)
def test_what_is_no_tie_has_a_winner(one: AttemptRecord, other: AttemptRecord, winner: str) -> None:
    assert settled(decided(race_node(), [one, other])).winner == winner


@pytest.mark.parametrize("how", ["cheapest", "first"])
def test_the_user_may_have_a_tie_decided_by_cost_or_time(how: select.How) -> None:
    records = [over(1, 0, cost=Cost(0.9), seconds=9.0), over(2, 1, cost=Cost(0.1), seconds=1.0)]
    assert settled(decided(race_node(select=how), records)).winner == "r-2"


def test_equal_trees_are_one_choice() -> None:
    records = [over(1, 0), structs.replace(over(2, 1), tree="t1"), over(3, 2)]
    node = race_node(rivals=(AgentChoice("agent2"), AgentChoice("agent3")))
    [action] = decided(node, records)
    assert isinstance(action, Choose)
    assert [each.id for each in action.attempts] == ["r-1", "r-3"]


def test_a_run_that_is_stopped_while_it_waits_has_no_winner() -> None:
    schedule = Schedule(Flow(name="f", strategy="race", nodes=(race_node(),)), RetryPolicy())
    schedule.load([NodeState(id="n", status="waiting")], [over(1, 0), over(2, 1, insertions=1)])
    schedule.stop("stopped by you")
    end = settled(schedule.decide(1.0))
    assert (end.status, end.winner) == ("stopped", None)


def judge_record(number: int, lane: int, shown: tuple[str, ...], order: str) -> AttemptRecord:
    said = Attempt(
        id=f"r-{number}", agent="judge", status="done", output=f'{{"order": {list(order)}}}'.replace("'", '"')
    )
    return AttemptRecord(attempt=said, run="r", node="n", phase="over", lane=lane, candidates=shown)


def test_a_judge_breaks_a_tie_and_one_that_wavers_does_not() -> None:
    node, records = race_node(judge=AgentChoice("judge")), [over(1, 0), over(2, 1, insertions=1)]
    first = decided(node, records)
    assert [each.lane for each in first if isinstance(each, Begin)] == list(llm_judge.JUDGE_PLACES)
    sure = [judge_record(3, -1, ("r-1", "r-2"), "AB"), judge_record(4, -2, ("r-2", "r-1"), "BA")]
    assert settled(decided(node, [*records, *sure])).winner == "r-1", "the larger one, by its word"
    wavers = [judge_record(3, -1, ("r-1", "r-2"), "AB"), judge_record(4, -2, ("r-2", "r-1"), "AB")]
    assert isinstance(decided(node, [*records, *wavers])[0], Choose)


# --- stopping early


def record(number: int, **more: object) -> AttemptRecord:
    return AttemptRecord(attempt=attempt(number, None, status="running", **more), run="r", node="n", started=0.0)


def test_rivals_are_stopped_only_where_they_cannot_reach_a_better_grade() -> None:
    near = Race(over=[attempt(1, "unharmed")], at_work=[record(2)], budget_usd=1.0, spent_usd=0.9)
    assert early_stop.to_stop(near) == {}, "it may become proven"
    assert sorted(early_stop.to_stop(structs.replace(near, over=[attempt(1, "proven")]))) == ["r-2"]
    assert sorted(early_stop.to_stop(structs.replace(near, over=[attempt(1, "held-out")]))) == ["r-2"]
    unchecked = structs.replace(near, over=[attempt(1, "unchecked")], grade="unchecked")
    assert early_stop.to_stop(unchecked) == {"r-2": "r-1 is unchecked, and $0.90 of $1.00 are spent"}


def test_no_rival_of_an_unharmed_one_is_stopped_for_its_cost() -> None:
    spent = record(2, cost=Cost(9.0))
    assert early_stop.to_stop(Race(over=[attempt(1, insertions=0)], at_work=[spent])) == {}


# --- the second reader


def single_node(**more: object) -> Node:
    return race_node(rivals=(), reader=READER, **more)


def reading(
    number: int, of: str, said: object, lane: int = second_reader.FIRST_READER_PLACE, **more: object
) -> AttemptRecord:
    own = structs.replace(Attempt(id=f"r-{number}", agent="reader", status="done", output=said), **more)
    return AttemptRecord(attempt=own, run="r", node="n", phase="over", lane=lane, candidates=(of,))


@pytest.mark.parametrize("grade", ["held-out", "proven", "unharmed"])
def test_work_with_a_grade_is_read_before_it_counts(grade: Grade) -> None:
    [begin] = decided(single_node(), [over(1, 0, grade)])
    assert isinstance(begin, Begin)
    assert (begin.agent, begin.lane, begin.candidates) == (READER, second_reader.FIRST_READER_PLACE, ("r-1",))


@pytest.mark.parametrize("grade", ["unchecked", None])
def test_work_without_checks_is_not_read(grade: Grade | None) -> None:
    assert settled(decided(single_node(), [over(1, 0, grade)])).winner == "r-1"


def test_a_reader_lowers_a_grade_and_the_attempt_is_doubtful() -> None:
    word = 'Well. {"verdict": "workaround", "reason": "it returns 3 for {1, 2}"}'
    [lower] = decided(single_node(), [over(1, 0, "proven"), reading(2, "r-1", word)])
    assert isinstance(lower, Lower)
    assert lower.reason == "the second reader says it works around the checks: it returns 3 for {1, 2}"
    read = attempt(1, "proven")
    second_reader.lower(read, lower.reason, "r")
    assert (read.status, read.evidence and read.evidence.grade) == ("failed", "doubtful")
    assert read.error
    assert read.error.kind == "doubtful"
    assert "corral merge r --pick r-1" in read.error.hint
    doubtful = AttemptRecord(attempt=read, run="r", node="n", phase="over", tree="t")
    end = settled(decided(single_node(), [doubtful, reading(2, "r-1", word)]))
    assert end.status == "failed", "and it is not read again"


@pytest.mark.parametrize("said", ['{"verdict": "task"}', {"verdict": "task", "reason": "fine"}])
def test_a_reader_that_finds_nothing_changes_nothing(said: object) -> None:
    end = settled(decided(single_node(), [over(1, 0, "proven"), reading(2, "r-1", said)]))
    assert (end.winner, end.why) == ("r-1", "its check passes; 1 file changed")


@pytest.mark.parametrize("said", ["I like it", '{"verdict": "proven"}', None, ["workaround"], '{"verdict": ["task"]}'])
def test_a_reader_without_a_clear_word_changes_nothing_and_that_is_noted(said: object) -> None:
    end = settled(decided(single_node(), [over(1, 0, "unharmed"), reading(2, "r-1", said)]))
    assert end.winner == "r-1"
    assert end.why == "its check passes; 1 file changed; the second reader gave no clear answer (done)"


def test_a_reader_that_fails_changes_nothing_and_that_is_noted() -> None:
    broken = reading(2, "r-1", None, status="over_budget", error=Failure("budget", "the budget is used up"))
    end = settled(decided(single_node(), [over(1, 0, "proven"), broken]))
    assert end.winner == "r-1"
    assert end.why
    assert end.why.endswith("; the second reader gave no clear answer (the budget is used up)")


def test_each_lane_of_a_race_is_read_and_a_doubtful_one_cannot_win() -> None:
    node = race_node(reader=READER)
    begun = decided(node, [over(1, 0, "proven"), over(2, 1, "proven")])
    assert [(each.lane, each.candidates) for each in begun if isinstance(each, Begin)] == [
        (-3, ("r-1",)),
        (-4, ("r-2",)),
    ]
    fine = [reading(3, "r-1", '{"verdict": "task"}'), reading(4, "r-2", '{"verdict": "workaround"}', lane=-4)]
    actions = decided(node, [over(1, 0, "proven"), over(2, 1, "proven", insertions=0), *fine])
    assert [each.attempt for each in actions if isinstance(each, Lower)] == ["r-2"]


def test_what_comes_after_doubtful_work_goes_on_from_it_not_from_its_reader() -> None:
    nodes = (single_node(), Node(id="m", task=Task(prompt="x"), needs=(Edge("n", on="always"),)))
    schedule = Schedule(Flow(name="f", strategy="flow", nodes=nodes), RetryPolicy())
    failed = over(1, 0, "doubtful", status="failed", error=Failure("doubtful", "no"))
    schedule.load([NodeState(id="n", status="failed", reason="no")], [failed, reading(2, "r-1", "x")])
    assert schedule.heads("m", "base") == ("c1",)


def test_the_first_of_a_race_is_read_before_others_are_stopped() -> None:
    node = race_node(reader=READER, select="first")
    actions = decided(node, [over(1, 0, "proven")])
    assert {each.agent.name for each in actions if isinstance(each, Begin)} == {"reader", "agent2"}
    assert not any(isinstance(each, FinishRun) for each in actions)


def test_the_second_reader_judges_a_tie_where_no_judge_is_named() -> None:
    node = race_node(reader=READER)
    read = [reading(3, "r-1", '{"verdict": "task"}'), reading(4, "r-2", '{"verdict": "task"}', lane=-4)]
    begun = decided(node, [over(1, 0), over(2, 1), *read])
    assert [(each.agent, each.lane) for each in begun if isinstance(each, Begin)] == [(READER, -1), (READER, -2)]
    begun = decided(node, [over(1, 0, "proven"), over(2, 1, "proven"), *read])
    assert settled(begun).winner == "r-1", "what is proven needs no judge"


def test_a_reader_sees_task_change_and_evidence_and_not_whose_it_is() -> None:
    detail = EvidenceDetail(
        steered=(SteeringFile(path="conftest.py", how="removed", why="runner configuration"),),
        doubts=(Doubt(path="app.py", line=7, words="names a test runner", strong=False),),
    )
    evidence = Evidence(grade="proven", reasons=("fails at the base, passes here",))
    prompt, files = second_reader.brief("mend add()", "+    return 3\n", evidence, detail)
    for part in ("mend add()", "+    return 3", "fails at the base", "conftest.py: runner", "app.py:7: names a test"):
        assert part in prompt
    assert files == ()
    assert second_reader.brief("x", "+\n" * 60_000, None, None)[1], "a long change is a file"
