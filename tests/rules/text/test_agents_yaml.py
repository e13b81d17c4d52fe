"""Agents of an agents.yaml as TOML: whatever stands in them comes out again as it was."""

import tomllib

from hypothesis import given
from hypothesis import strategies as some

from corral.rules.flows.tree import Position
from corral.rules.text.agents_yaml import ListedAgent, read, toml

TEXT = some.text(alphabet=some.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1)


@given(description=TEXT, instructions=TEXT, pattern=TEXT)
def test_any_text_survives(description: str, instructions: str, pattern: str) -> None:
    agent = ListedAgent(
        name="a b", place=Position(None, 1, 1), description=description, instructions=instructions, write=(pattern,)
    )
    assert tomllib.loads(toml([agent], "claude")) == {
        "agents": {"a b": {"like": "claude", "instructions": instructions, "scope": {"write": [pattern]}}}
    }


def test_agents_may_be_a_list_or_a_table_by_name() -> None:
    listed = read("- {name: a, role: QA}\n- {name: b}\n", ["tester"])
    named = read("agents:\n  a: {role: qa}\n  b: {}\n", ["tester"])
    assert [(agent.name, agent.role) for agent in listed.agents] == [("a", "tester"), ("b", None)]
    assert [(agent.name, agent.role) for agent in named.agents] == [("a", "tester"), ("b", None)]


def test_a_scope_that_names_nothing_is_said_to_hold_nothing() -> None:
    found = read("- {name: a, scope: []}\n", [])
    assert found.agents[0].write is None
    assert found.left_out == ("the empty `scope` of `a`: it may change any file",)
