"""A flow is played through with stubs: in order, to its end, as a real run would be decided."""

import pytest

from corral.model.errors import BadRequest
from corral.model.flow import Flow
from corral.rules.flows.reader import KnownNames, read_flow
from corral.rules.flows.rehearsal import Rehearsal, read_stubs, rehearse
from corral.rules.flows.strategies import with_approval

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
    found = read_flow(text, KnownNames())
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
        "3 ok asks the user: yes", "4 land merges",
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
        "5 ok asks the user: no", "5 land skipped: `ok` is skipped",
    ]  # fmt: skip
    assert played.status == "partial"


def test_a_budget_ends_it_where_it_would() -> None:
    text = "budget: 1\nnodes: {a: {task: x, agent: d}, b: {task: x, agent: d, needs: [a]}, c: {task: x, agent: d, needs: [b]}}"
    played = play(costs={"d": 0.6}, text=text)
    assert told(played) == ["1 a", "2 b", "3 c over_budget: the budget of $1.00 is used up"]
    assert played.status == "over_budget"


INNER = """
inputs: {who: {default: x}}
context: "Greet {{who}}"
nodes:
  first: {task: t, when: who != "nobody"}
  second: {task: t, needs: [first]}
"""
KNOWN = KnownNames(nested=lambda name: INNER if name == "inner" else None)
AROUND = """
nodes:
  plan: {task: p, output: {n: integer}}
  sub: {flow: inner, needs: [plan], when: plan.output.n > 3}
  after: {task: "{{plan.output.n}}", needs: [{node: sub, on: always}]}
"""


def test_the_condition_of_a_nested_flow_is_asked_in_the_flow_around_it() -> None:
    made = read_flow(AROUND, KNOWN).flow
    skipped = rehearse(made)
    assert [step.node for step in skipped.steps if step.agent is not None] == ["plan", "after"]
    assert "`when` of `sub` does not hold: plan.output.n > 3" in skipped.steps[1].words
    held = rehearse(made, None, read_stubs(['plan={"n": 5}'], "", made))
    assert [step.node for step in held.steps] == ["plan", "sub/first", "sub/second", "after"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("a: {task: p, needs: [sub]}, sub: {flow: inner, needs: [a]}", "in a circle: a -> sub -> a"),
        ("sub: {flow: inner, needs: [nosuch]}", "`sub` needs `nosuch`, which is no node"),
        ("sub: {flow: inner, when: nosuch.output == 1}", "`when` of `sub` names `nosuch`"),
        ("sub: {flow: inner, with: {who: '{{nosuch}}'}}", "`with` of `sub` names `nosuch`"),
        ("sub: {flow: inner, for_each: [1, 2]}", "a nested flow is done once"),
    ],
)
def test_mistakes_around_nested_flows(nodes: str, words: str) -> None:
    found = read_flow(f"nodes: {{{nodes}}}", KNOWN).mistakes
    assert any(words in mistake.message for mistake in found), found


@pytest.mark.parametrize("line", ["budget: {usd: 1}", "budget: 1", "parallel: 2", "on_failure: stop"])
def test_a_nested_flow_has_no_limits_of_its_own(line: str) -> None:
    known = KnownNames(nested=lambda _: f"{line}\n{INNER}")
    (mistake,) = read_flow("nodes: {a: {task: x}, sub: {flow: inner}}", known).mistakes
    key = line.partition(":")[0]
    assert mistake.message == f"inner:1:{len(key) + 3}: a nested flow has no `{key}` of its own"
    assert f"put `{key}` in the outermost flow" in mistake.hint
    assert read_flow(known.nested("inner") or "", known).mistakes == ()  # alone it may


def test_one_no_of_several_is_enough() -> None:
    text = "nodes: {ok: {gate: 'really {{item}}?', for_each: [a, b]}, land: {merge: {}, needs: [ok]}}"
    assert told(play("ok.1=no", text=text))[-1] == "2 land skipped: `ok` is skipped"
    assert told(play(text=text))[-1] == "2 land merges"


def test_the_words_that_all_share_come_first_and_are_the_same() -> None:
    text = 'context: "Be {{how}}"\ninputs: {how: {default: kind}}\nnodes: {a: {task: x}, b: {flow: inner}, c: {run: x}}'
    nodes = {node.id: node.task.briefing for node in read_flow(text, KNOWN).flow.nodes}
    head = "# What applies to every step\n\n"
    assert nodes["a"] == (f"{head}Be kind",)
    assert nodes["b/first"] == (f"{head}Be kind", f"{head}Greet x")
    assert nodes["c"] == ()
    assert read_flow("context: '{{nosuch}}'\nnodes: {a: {task: x}}", KnownNames()).mistakes


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


def test_nothing_begins_that_a_person_did_not_approve() -> None:
    text = """
nodes:
  build: {task: b}
  tidy: {task: t, needs: [{node: build, on: always}]}
  mend: {task: m, needs: [{node: build, on: failure}]}
  last: {task: l, needs: [tidy]}
"""
    made = with_approval(flow(text), 60.0, "May it?")
    played = rehearse(made, None, read_stubs(["approve=no"], "", made), None)
    assert [step.node for step in played.steps if "skipped" not in step.words] == ["approve"]
    assert [step.node for step in rehearse(made, None, None, None).steps][:2] == ["approve", "build"]
