"""Nodes with items: lists in the file, the combinations of a matrix, lists that a command prints; and repeated commands."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from corral.frontends.python.flows import Flow as PythonFlow
from corral.model import RetryPolicy
from corral.model.flow import Flow
from corral.rules.flows.items import MOST_ITEMS, combinations
from corral.rules.flows.json_schema import schema
from corral.rules.flows.reader import KnownNames, read_flow
from corral.rules.flows.rehearsal import read_stubs, rehearse
from corral.rules.schedule.decide import Schedule


def flow(text: str) -> Flow:
    found = read_flow(text, KnownNames())
    assert not found.mistakes, found.mistakes
    return found.flow


def mistakes(text: str) -> list[str]:
    return [
        f"{each.line}:{each.column}: {each.message} | {each.hint}" for each in read_flow(text, KnownNames()).mistakes
    ]


def prompts(text: str) -> list[str]:
    """Return what the items of the node `a` are told."""
    made = flow(text)
    schedule = Schedule(made, RetryPolicy())
    schedule.load((), ())
    schedule.decide(0.0)
    return [schedule.node(name).task.prompt for name in schedule.nodes if name.startswith("a.")]


# --- lists in the file


@pytest.mark.parametrize(
    "listed",
    [
        "for_each: ['{{thing}}-a', b]",
        "for_each: [{x: [c, '{{ thing }}']}]",
        "matrix: {os: [z, '{{thing}}']}",
        "matrix: {os: [z], include: [{os: z, y: '{{before.output}}'}]}, needs: [before]",
    ],
)
def test_a_place_in_a_list_of_the_file_is_refused_as_it_is_not_filled(listed: str) -> None:
    text = f"inputs: {{thing: {{default: T}}}}\nnodes:\n  before: {{run: x}}\n  a: {{run: x, {listed}}}\n"
    (found,) = mistakes(text)
    assert "is not filled in | write {{" in found
    assert found.startswith("4:")


def test_braces_in_a_list_that_name_nothing_of_the_flow_are_text() -> None:
    assert prompts("nodes: {a: {run: '{{item}}', for_each: ['{{ user.name }}', '${{ x', '{{}}']}}") == [
        "{{ user.name }}", "${{ x", "{{}}",
    ]  # fmt: skip


def test_items_may_be_objects_and_their_fields_are_filled_in() -> None:
    text = """
nodes:
  a: {run: "{{item.os}} {{item.py}} {{index}}", for_each: [{os: linux, py: "3.11"}, {os: mac, py: 3.10}]}
"""
    assert prompts(text) == ["linux 3.11 0", "mac 3.10 1"]


def test_a_list_in_the_file_may_be_long() -> None:
    items = ", ".join(f"file-{number:04}-{'x' * 40}.py" for number in range(MOST_ITEMS))
    assert len(prompts(f"nodes: {{a: {{run: '{{{{item}}}}', for_each: [{items}]}}}}")) == MOST_ITEMS
    assert "1001 items" in mistakes(f"nodes: {{a: {{run: x, for_each: [{items}, more]}}}}")[0]


@pytest.mark.parametrize("written", ["3.10", "3.11", "007", "1e3", "1.0"])
def test_numbers_in_a_list_stay_as_they_are_written(written: str) -> None:
    assert prompts(f"nodes: {{a: {{run: '{{{{item}}}}', for_each: [{written}]}}}}") == [written]
    assert prompts(f"nodes: {{a: {{run: '{{{{matrix.v}}}}', matrix: {{v: [{written}]}}}}}}") == [written]
    inputs = f"inputs: {{v: {{default: {written}}}}}\n"
    assert prompts(inputs + "nodes: {a: {run: '{{v}}', for_each: [1]}}") == [written]


def test_a_condition_that_names_the_item_is_asked_of_each() -> None:
    made = flow("nodes: {a: {run: x, for_each: [1, 2, 3], when: item != 2}, b: {run: y, needs: [a]}}")
    played = rehearse(made)
    assert [f"{step.node} {step.words}".strip() for step in played.steps] == [
        "a.0", "a.1 skipped: `when` does not hold: item != 2", "a.2", "b",
    ]  # fmt: skip
    assert played.status == "done"


def test_conditions_before_items_are_still_asked_once() -> None:
    made = flow("nodes: {z: {run: z, output: json}, a: {run: x, needs: [z], for_each: [1, 2], when: z.output == 5}}")
    assert [step.node for step in rehearse(made).steps] == ["z", "a"]
    assert [step.node for step in rehearse(made, None, read_stubs(["z=5"], "", made)).steps] == ["z", "a.0", "a.1"]


# --- matrix


def test_a_matrix_is_the_product_of_its_axes_without_what_is_excluded() -> None:
    text = """
nodes:
  a:
    run: "{{matrix.os}}/{{matrix.py}}"
    matrix: {os: [a, b], py: [3.10, 3.11], exclude: [{os: b, py: 3.10}]}
"""
    assert prompts(text) == ["a/3.10", "a/3.11", "b/3.11"]


def test_include_adds_fields_and_rows() -> None:
    rows = combinations(
        {"fruit": ["apple", "pear"], "animal": ["cat", "dog"]},
        [
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
        ],
        [],
    )
    assert rows == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
    ]
    assert combinations({}, [{"os": "a"}, {"os": "b"}], []) == [{"os": "a"}, {"os": "b"}]


VALUES = some.lists(
    some.integers(0, 5) | some.sampled_from("abc") | some.booleans(), min_size=1, max_size=4, unique_by=repr
)


@given(some.dictionaries(some.sampled_from("wxyz"), VALUES, min_size=1), some.data())
def test_every_combination_is_there_once_unless_it_is_excluded(
    axes: dict[str, list[Any]], data: some.DataObject
) -> None:
    product = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    out = data.draw(some.lists(some.sampled_from(product), max_size=3))
    rows = combinations(axes, [], out)
    assert len({repr(row) for row in rows}) == len(rows)
    gone = {repr(row) for row in out}
    assert [repr(row) for row in rows] == [repr(row) for row in product if repr(row) not in gone]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("matrix: nosuch.output", "`matrix` of `n` names `nosuch`, which is not known there"),
        ("matrix: [a, b]", "1:29: `matrix` is a table of lists"),
        ("matrix: {os: linux}", "1:34: `os` of `matrix` is a list of values"),
        ("matrix: {os: []}", "`os` of `matrix` is a list of values"),
        ("matrix: {os: [a, a]}", "`os` of `matrix` has `a` twice"),
        ("matrix: {9: [a]}", "`9` cannot be the name of an axis"),
        ("matrix: {}", "`matrix` has no combination"),
        ("matrix: {os: [a], exclude: [{os: a}]}", "`matrix` has no combination"),
        ("matrix: {os: [a], exclude: [{so: a}]}", "1:49: `exclude` names `so`, which is no axis"),
        ("matrix: {os: [a], exclude: [{os: b}]}", "`exclude`: `os` has no value `b`"),
        ("matrix: {os: [a], exclude: {os: b}}", "`exclude` of `matrix` is a list of tables"),
        ("matrix: {os: [a], include: [b]}", "`include` of `matrix` is a list of tables"),
        ("matrix: {os: [a]}, for_each: [1]", "a node has either `for_each` or `matrix`"),
        (f"matrix: {{a: {list(range(40))}, b: {list(range(40))}}}", "`matrix` has 1600 combinations | at most 1000"),
        (f"matrix: {{a: {list(range(900))}, b: {list(range(900))}}}", "`matrix` has 810000 combinations"),
        ("matrix: {os: [a]}, when: matrix.oz == 1", "`matrix.oz`: all combinations have no `oz` | they have: os"),
        ("matrix: {os: [a], include: [{os: b, x: 1}]}, when: matrix.x == 1", "`matrix.x`: 1 of 2 combinations have no"),
        ("for_each: [{a: 1}, 2], when: item.a == 1", "`item.a`: 1 of 2 items have no `a`"),
        ("for_each: item.list", "`for_each` of `n` names `item`, which is not known there"),
        ("for_each: [1], when: matrix.os", "names `matrix`"),
    ],
)
def test_mistakes_in_a_matrix_are_found_with_their_places(node: str, words: str) -> None:
    found = mistakes(f"nodes: {{n: {{run: x, {node}}}}}")
    assert any(words in each for each in found), found


# --- lists that a command prints


def test_a_list_that_a_command_prints() -> None:
    made = flow(
        "nodes: {list-files: {run: ls, output: json}, a: {run: '{{item.n}}', needs: [list-files], for_each: list-files.output}}"
    )
    played = rehearse(made, None, read_stubs(['list-files=[{"n": 1}, {"n": 2}]'], "", made))
    assert [step.node for step in played.steps] == ["list-files", "a.0", "a.1"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("run: ls", "for_each: a.output", "but the text that `a` prints | add `output: json` to it"),
        ("run: ls", "when: a.output.kind == 1", "the output of `a` is text, it has no `kind` | add `output: json`"),
        ("run: ls, output: {n: string}", "for_each: a.output", "`a.output` is no list, but object"),
        ("task: x, output: {n: string}", "for_each: a.output.n", "`a.output.n` is no list, but string"),
        ("run: ls, output: {n: string}", "when: a.output.m == 1", "the output of `a` has no `m` | it has: n"),
        ("run: ls, output: nosuch", "when: a.status", "`nosuch` is no shape of an output"),
    ],
)
def test_what_an_output_cannot_be_is_found_before_anything_starts(first: str, second: str, words: str) -> None:
    found = mistakes(f"nodes: {{a: {{{first}}}, b: {{run: x, needs: [a], {second}}}}}")
    assert any(words in each for each in found), found


# --- repeated commands


def test_a_command_is_repeated_until_it_succeeds() -> None:
    made = flow("nodes: {a: {run: x, repeat: {until: success, most: 4}}}")
    played = rehearse(made, None, read_stubs(["a=failure"], "", made))
    assert [step.words for step in played.steps][:4] == ["fails", "try 2, fails", "try 3, fails", "try 4, fails"]
    assert played.status == "failed"
    assert [step.words for step in rehearse(made).steps] == [""]


def test_a_command_is_repeated_until_an_expression_holds_with_a_delay() -> None:
    made = flow("nodes: {a: {run: x, output: json, repeat: {until: output.ready == true, most: 3, delay: 5s}}}")
    (node,) = made.nodes
    assert node.repeat is not None
    assert node.repeat.delay_seconds == 5.0
    played = rehearse(made, None, read_stubs(['a={"ready": false}'], "", made))
    assert [step.words for step in played.steps] == [
        "", "try 2", "try 3", "failed: `until` does not hold after 3 rounds",
    ]  # fmt: skip


def test_defaults_for_agents_do_not_shape_or_repeat_commands() -> None:
    made = flow("defaults: {output: {v: string}, repeat: {most: 9}}\nnodes: {a: {run: x}, b: {task: x}}")
    assert [(node.output is None, node.repeat is None) for node in made.nodes] == [(True, True), (False, False)]


# --- inputs


@pytest.mark.parametrize(
    ("default", "given_text", "value"),
    [
        ("[a]", '["x", "y"]', ["x", "y"]),
        ("2", "3", 3),
        ("2", "3.10", "3.10"),
        ("2", "main", "main"),
        ("true", "false", False),
        ("{a: 1}", "{a: 2}", {"a": 2}),
        ("word", "3", "3"),
        ("3.10", "3.11", 3.11),
        ("''", "[1]", "[1]"),
    ],
)
def test_a_text_for_an_input_is_read_as_its_default_is(default: str, given_text: str, value: object) -> None:
    text = f"inputs: {{v: {{default: {default}}}}}\nnodes: {{a: {{run: x}}}}"
    found = read_flow(text, KnownNames(), {"v": given_text})
    assert (found.mistakes, found.flow.inputs["v"]) == ((), value)


def test_an_input_that_is_a_list_takes_no_word() -> None:
    text = "inputs: {v: {default: [a]}}\nnodes: {a: {run: x, for_each: v}}"
    (found,) = read_flow(text, KnownNames(), {"v": "word"}).mistakes
    assert "the input `v` is a list" in found.message


def test_a_flow_from_python_may_say_the_same() -> None:
    made = PythonFlow("all")
    made.run_command("list-files", "ls", output="json", repeat={"until": "success", "most": 2, "delay": "1s"})
    made.run_command("test-it", "echo {{matrix.os}}", needs=["list-files"], matrix={"os": ["a", "b"]})
    made.task("each", "{{item.name}}", for_each=[{"name": "x"}])
    for text in (made.to_json(), made.to_yaml()):
        assert [node.fans_out for node in flow(text).nodes] == [False, True, True]


def test_the_published_schema_knows_every_key() -> None:
    run = next(
        kind for kind in schema()["properties"]["nodes"]["additionalProperties"]["oneOf"] if kind["required"] == ["run"]
    )
    assert {"matrix", "for_each", "output", "repeat"} <= run["properties"].keys()
    assert run["properties"]["repeat"]["properties"].keys() == {"until", "most", "delay"}
    assert run["properties"]["matrix"]["properties"].keys() == {"include", "exclude"}


def test_a_combination_is_named_where_it_is_played_and_where_it_fails() -> None:
    made = flow("nodes: {a: {run: x, matrix: {os: [a, b], py: [3.10]}}}")
    played = rehearse(made, None, read_stubs(["a.1=failure"], "", made))
    assert [step.words for step in played.steps] == [
        "os=a, py=3.10",
        "os=b, py=3.10, fails",
        "failed: check_failed: the stub says so",
        "failed: 1 of 2 combinations, first os=b, py=3.10: check_failed: the stub says so",
    ]


def test_a_list_is_handed_to_a_nested_flow_as_a_list() -> None:
    inner = (
        "inputs: {files: {default: []}, word: {default: x}}\nnodes: {each: {run: '{{item}} {{word}}', for_each: files}}"
    )
    text = """
nodes:
  plan: {run: p, output: {files: [string], word: string}}
  sub: {flow: inner, needs: [plan], with: {files: "{{plan.output.files}}", word: "{{plan.output.word}}!"}}
"""
    made = read_flow(text, KnownNames(nested=lambda _: inner))
    assert not made.mistakes
    stubs = read_stubs(['plan={"files": ["a", "b"], "word": "w"}'], "", made.flow)
    assert [step.node for step in rehearse(made.flow, None, stubs).steps] == ["plan", "sub/each.0", "sub/each.1"]


@pytest.mark.parametrize(("value", "wrong"), [("word", True), ("3", True), ("[a]", False)])
def test_an_input_that_is_no_list_is_found_where_it_is_used_as_one(value: str, wrong: bool) -> None:
    found = mistakes(f"inputs: {{v: {{default: {value}}}}}\nnodes: {{a: {{run: x, for_each: v}}}}")
    assert any("the input `v` is no list" in each for each in found) is wrong


PLANNED = "nodes: {plan: {run: p, output: json}, a: {run: '{{matrix.os}}', needs: [plan], matrix: plan.output}}"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('[{"os": "x"}, {"os": "y"}]', ["os=x", "os=y"]),
        ('{"os": ["x", "y"], "exclude": [{"os": "x"}], "include": [{"os": "z"}]}', ["os=y", "os=z"]),
        ('{"os": "x"}', ["failed: bad_output: `plan.output`: `os` of the matrix is no list"]),
        ('{"os": ["x"], "include": [3]}', ["failed: bad_output: `plan.output`: `include` and `exclude`"]),
        ("[1]", ["failed: bad_output: `plan.output`: a matrix is a table of lists"]),
        ("3", ["failed: bad_output: `plan.output`: it is no list"]),
        ("{}", []),
    ],
)
def test_a_matrix_that_an_earlier_node_makes(value: str, told: list[str]) -> None:
    made = flow(PLANNED)
    played = rehearse(made, None, read_stubs([f"plan={value}"], "", made))
    found = [step.words for step in played.steps][1:]
    assert len(found) == len(told), found
    assert all(each.startswith(words) for each, words in zip(found, told, strict=True)), found


def test_a_dry_run_makes_up_what_others_ask_of_an_output_without_a_shape() -> None:
    made = flow("""
nodes:
  list-it: {run: x, output: json}
  each: {needs: [list-it], for_each: list-it.output.files, run: "{{item.name.first}} {{list-it.output.other.deep}}"}
  rows: {needs: [list-it], matrix: list-it.output.rows, run: "{{matrix.os}}"}
  text: {needs: [list-it], run: "{{list-it.output}} {{list-it.output.other}}"}
  same: {run: x, output: json}
  flat: {needs: [same], for_each: same.output, run: "{{item}}"}
""")
    played = rehearse(made)
    assert played.status == "done", played
    assert {"each.0", "rows.0", "flat.0"} <= {step.node for step in played.steps}
