"""A flow is played through with stubs: in order, to its end, as a real run would be decided."""

import pytest

from corral.errors import BadRequest
from corral.flow import Flow
from corral.rules.flows.reading import Known, read_flow
from corral.rules.flows.rehearsal import Rehearsal, rehearse
from corral.rules.flows.stubs import read_stubs

TEXT = """
nodes:
  plan: {task: p, output: {files: [string], n: integer}}
  each: {task: "{{item}}", needs: [plan], for_each: plan.output.files, retries: 1}
  small: {task: s, needs: [plan], when: plan.output.n < 3}
  mend: {task: m, needs: [{node: each, on: failure}]}
  loop: {task: l, needs: [plan], repeat: {until: output == "ready", most: 2}}
  ok: {gate: "Land?", needs: [{node: mend, on: always}]}
  land: {merge: {}, needs: [ok]}
"""


def flow(text: str = TEXT) -> Flow:
    found = read_flow(text, Known())
    assert not found.mistakes, found.mistakes
    return found.flow


def play(*pairs: str, file: str = "", costs: dict[str, float] | None = None, text: str = TEXT) -> Rehearsal:
    made = flow(text)
    return rehearse(made, None, read_stubs(pairs, file, made), costs)


def told(played: Rehearsal) -> list[str]:
    return [f"{step.wave} {step.node} {step.words}".strip() for step in played.steps]


def test_all_goes_well_unless_a_stub_says_otherwise() -> None:
    played = play('loop="ready"')
    assert told(played) == [
        "1 plan", "2 small", "2 loop", "2 each.0", "3 mend skipped: `each` is done",
        "3 ok asks a person: yes", "4 land merges",
    ]  # fmt: skip
    assert played.status == "done"


def test_other_branches() -> None:
    played = play('plan={"files": ["a", "b"], "n": 7}', "each.1=failure", "ok=no", file="loop: [1]\nok: yes\n")
    assert told(played) == [
        "1 plan", "2 small skipped: `when` does not hold: plan.output.n < 3", "2 loop", "2 each.0", "2 each.1 fails",
        "3 loop try 2", "3 each.1 try 2, fails",
        "4 loop failed: `until` does not hold after 2 rounds",
        "4 each.1 failed: check_failed: the stub says so", "4 each failed: 1 of 2 items: check_failed: the stub says so",
        "4 mend",
        "5 ok asks a person: no", "5 land skipped: `ok` is skipped",
    ]  # fmt: skip
    assert played.status == "partial"


def test_a_budget_ends_it_where_it_would() -> None:
    text = "budget: 1\nnodes: {a: {task: x, agent: d}, b: {task: x, agent: d, needs: [a]}, c: {task: x, agent: d, needs: [b]}}"
    played = play(costs={"d": 0.6}, text=text)
    assert told(played) == ["1 a", "2 b", "3 c over_budget: the budget of $1 is used up"]
    assert played.status == "over_budget"


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("plan", "what comes of it"),
        ("plan=perhaps", "neither an end nor JSON"),
        ("nobody=failure", "there is no such node"),
        ("small.0=failure", "there is no such node"),
        ('plan={"files": 3}', "does not fit"),
        ("ok=[1]", "it is a gate"),
    ],
)
def test_stubs_that_make_no_sense(pair: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        play(pair)


@pytest.mark.parametrize("text", ["- a", "a: [", "plan: 3"])
def test_stub_files_that_make_no_sense(text: str) -> None:
    with pytest.raises(BadRequest):
        play(file=text)
