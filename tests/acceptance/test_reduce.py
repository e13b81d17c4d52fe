"""Outputs of several become one: of the items of a list, and of the lanes of a race."""

from typing import Any

from tests.rig.command import Corral

ITEMS = """
nodes:
  ask:
    for_each: "['north', 'south']"
    agent: mine
    task: "Tell about {{item}}"
    read_only: true
    reduce: HOW
  use:
    needs: [ask]
    agent: repeats
    task: "Told: {{ask.output}}"
    read_only: true
"""


def ran(corral: Corral, text: str) -> dict[str, Any]:
    flow = corral.root / "flow.yaml"
    flow.write_text(text)
    outcome = corral("flow", "run", flow, "--repo", corral.repo().folder, "--json", timeout=120)
    assert outcome.code == 0, outcome
    return {node["id"]: node for node in outcome.json["nodes"]}


def test_items_are_put_one_after_the_other(corral: Corral) -> None:
    corral.agent("mine", 'case "$1" in *north*) echo cold;; *) echo warm;; esac')
    corral.agent("repeats", 'printf %s "$1" | tr "\\n" " "')
    nodes = ran(corral, ITEMS.replace("HOW", "concat"))
    assert nodes["ask"]["output"] == "cold\n\nwarm"
    assert "Told: cold  warm" in nodes["use"]["attempts"][0]["output"]


def test_json_of_items_is_merged(corral: Corral) -> None:
    corral.agent("mine", """case "$1" in *north*) echo '{"north": 1}';; *) echo '{"south": 2}';; esac""")
    corral.agent("repeats", 'printf %s "$1"')
    nodes = ran(corral, ITEMS.replace("HOW", "merge"))
    assert nodes["ask"]["output"] == {"north": 1, "south": 2}
    assert '{"north":1,"south":2}' in nodes["use"]["attempts"][0]["output"]


def test_outputs_of_a_race_are_reduced_too(corral: Corral) -> None:
    corral.agent("one", "echo first")
    corral.agent("two", "echo second")
    nodes = ran(corral, "nodes: {ask: {race: [one, two], task: tell, read_only: true, reduce: concat}}")
    assert nodes["ask"]["output"] == "first\n\nsecond"


def test_an_unknown_reducer_is_refused(corral: Corral) -> None:
    flow = corral.root / "flow.yaml"
    flow.write_text("nodes: {a: {agent: scripted, task: t, reduce: average}}")
    checked = corral("flow", "check", flow)
    assert checked.code == 2
    assert "`reduce` is one of first, last, concat, merge, list, preferred" in checked.err
