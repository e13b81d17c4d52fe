"""A task may ask for an output of a certain shape: it is validated, asked for once more, and then fails; every agent by its own means."""

import json
from pathlib import Path
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.stage import Stage
from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo
from tests.rig.suites import SUITES

SHAPE = '{"verdict": ["accept", "reject"], "notes": "string"}'
GOOD = {"verdict": "accept", "notes": "fine"}
BAD = {"verdict": "maybe"}
TOOLS = {name: suite.output_tool for name, suite in SUITES.items() if suite.output_tool}


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"a.txt": "a\n"})


def says(value: object) -> str:
    return f"cat <<'END'\nI looked at it.\n```json\n{json.dumps(value)}\n```\nEND"


def test_an_output_that_fits_is_the_attempts_output(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("reviewer", f'printf %s "$1" > "$HOME/told"; {says(GOOD)}', 'prompt = "argument"')
    outcome = corral.run(repo, "review it", "--agent", agent, "--output", SHAPE, "--role", "reviewer")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == GOOD
    assert outcome.attempt["files_changed"] == []  # the output is the work
    told = corral("logs", "@last", "--prompt").out
    assert "review it\n\nEnd your last message with one JSON value" in told


def test_an_agent_without_a_flag_is_told_in_words(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("teller", f'printf %s "$1" > told.txt; {says(GOOD)}', 'prompt = "argument"')
    outcome = corral.run(repo, "review it", "--agent", agent, "--output", SHAPE)
    told = repo.read(outcome.attempt["branch"], "told.txt")
    assert told.startswith("review it\n\nEnd your last message with one JSON value")
    assert '"enum"' in told


def test_a_bad_one_is_asked_for_once_more(corral: Corral, repo: Repo) -> None:
    script = f'printf "%s\n----\n" "$1" >> told.txt; if grep -q "does not fit" told.txt; then {says(GOOD)}\nelse {says(BAD)}\nfi'
    agent = corral.agent("learner", script, 'prompt = "argument"')
    outcome = corral.run(repo, "review it", "--agent", agent, "--output", SHAPE)
    assert outcome.code == 0, outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1  # no retry is used up
    assert outcome.attempt["output"] == GOOD
    _, second, _ = repo.read(outcome.attempt["branch"], "told.txt").split("----")
    assert second.strip().startswith("review it")  # it does not remember: it is told all
    assert "I looked at it." in second
    assert 'output has no `notes`; output.verdict is "maybe", not one of "accept", "reject"' in second
    (rejected,) = [event for event in corral.events() if event["type"] == "rejected"]
    assert rejected["misfits"][0] == "output has no `notes`"


def test_bad_twice_fails_the_node(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("stubborn", f"echo x >> turns.txt; {says(BAD)}")
    outcome = corral.run(repo, "review it", "--agent", agent, "--output", SHAPE)
    assert outcome.code == 1
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    error = outcome.attempt["error"]
    assert error["class"] == "bad_output"
    assert "output has no `notes`" in error["message"]
    assert repo.read(outcome.attempt["branch"], "turns.txt") == "x\nx"
    assert "maybe" in outcome.attempt["output"]  # what it said is not lost


def test_tries_that_a_person_asks_for_are_given(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("stubborn", says(BAD))
    outcome = corral.run(repo, "review it", "--agent", agent, "--output", SHAPE, "--retries", "1")
    assert [each["error"]["class"] for each in outcome.json["nodes"][0]["attempts"]] == ["bad_output", "bad_output"]


def test_no_json_at_all(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "review it", "--agent", corral.agent("silent", "echo fine"), "--output", '"boolean"')
    assert outcome.attempt["error"]["class"] == "bad_output"
    assert "its last message holds no JSON value" in outcome.attempt["error"]["message"]


def test_checks_count_as_well(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "t", "--agent", corral.agent("a", says(GOOD)), "--output", SHAPE, "--check", "false")
    assert outcome.attempt["error"]["class"] == "check_failed"


def test_a_shape_from_a_file(corral: Corral, repo: Repo) -> None:
    file = corral.root / "shape.json"
    file.write_text(json.dumps({"type": "array", "items": {"type": "integer", "minimum": 1}}))
    agent = corral.agent("counter", "echo 'Here: [1, 2, 3]'")
    outcome = corral.run(repo, "count", "--agent", agent, "--output", str(file))
    assert outcome.attempt["output"] == [1, 2, 3], outcome


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("nowhere.json", "neither JSON nor a file"),
        ('{"a": ', "--output:"),
        ('{"type": "object", "properties": {"a": {"pattern": "x"}}}', "output.a: `pattern` is not known here"),
        ('{"a": "nonsense"}', "is no shape"),
    ],
)
def test_a_shape_that_is_none_starts_nothing(corral: Corral, repo: Repo, shape: str, words: str) -> None:
    outcome = corral.run(repo, "t", "--agent", corral.agent("a", "true"), "--output", shape)
    assert outcome.code == 2, outcome
    assert words in outcome.err
    assert "hint:" in outcome.err


# --- in flows


FLOW = """
name: review
nodes:
  review:
    agent: reviewer
    task: Review it
    output: {verdict: [accept, reject], notes: string}
  fix:
    needs: [review]
    when: review.output.verdict == "reject"
    agent: fixer
    task: "Fix: {{review.output.notes}}"
  praise:
    needs: [review]
    when: review.output.verdict == "accept"
    agent: fixer
    task: Praise it
"""


def nodes(outcome: Outcome) -> dict[str, Any]:
    return {node["id"]: node for node in outcome.json["nodes"]}


def test_a_flow_goes_on_by_an_output(corral: Corral, repo: Repo) -> None:
    corral.agent("reviewer", says({"verdict": "reject", "notes": "a.txt lacks a b"}))
    corral.agent("fixer", 'printf %s "$1" > fixed.txt', 'prompt = "argument"')
    file = corral.root / "review.yaml"
    file.write_text(FLOW)
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert outcome.code == 0, outcome
    found = nodes(outcome)
    assert found["review"]["attempts"][0]["output"]["verdict"] == "reject"
    assert found["praise"]["status"] == "skipped"
    told = repo.read(found["fix"]["attempts"][0]["branch"], "fixed.txt")
    assert told.startswith("Fix: a.txt lacks a b")


def test_a_flow_does_not_go_on_by_an_output_that_does_not_fit(corral: Corral, repo: Repo) -> None:
    corral.agent("reviewer", says(BAD))
    corral.agent("fixer", "touch fixed.txt")
    file = corral.root / "review.yaml"
    file.write_text(FLOW)
    found = nodes(corral("flow", "run", file, "--repo", repo.folder, "--json"))
    assert found["review"]["attempts"][0]["error"]["class"] == "bad_output"
    assert [found[name]["status"] for name in ("review", "fix", "praise")] == ["failed", "skipped", "skipped"]


def test_a_shape_in_a_flow_file_that_would_not_be_held(corral: Corral, repo: Repo) -> None:
    file = corral.root / "bad.yaml"
    file.write_text(FLOW.replace("notes: string", "notes: {type: string, pattern: x}"))
    outcome = corral("flow", "check", file, "--repo", repo.folder)
    assert outcome.code == 2, outcome
    assert "`pattern` is not known here" in outcome.err


@pytest.mark.slow
def test_what_is_handed_in_early_is_held_against_the_shape_at_once(tmp_path: Path) -> None:
    finish = "mcp__corral__finish"
    turns = [
        Turn(text="I hand it in.", tool=finish, input={"result": BAD}),
        Turn(text="Again.", tool=finish, input={"result": GOOD}),
        Turn(text="Done."),
    ]
    outcome, asked = run(Stage(SUITES["claude"], tmp_path), turns)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == GOOD
    assert any("the result does not fit: output has no `notes`" in body for body in asked)


# --- the real programs; that one fails which gives something else twice is shown by the conformance suite


def gives(agent: str, value: object) -> Turn:
    text = f"```json\n{json.dumps(value)}\n```"
    if agent in TOOLS:
        return Turn(text="I hand it over.", tool=TOOLS[agent], input=value)  # type: ignore[arg-type]
    return Turn(text=text)


def run(stage: Stage, turns: list[Turn], *arguments: str) -> tuple[Any, list[str]]:
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        outcome = stage.run("--output", SHAPE, *arguments, task="review it")
        return outcome, [json.dumps(request.body) for request in model.posts]


# That every real agent is asked once more, and goes on with its own session: the cases `bad_output` and `resumes` of
# test_conformance.py. Here one of each kind gives in: by a tool, by a schema, by words alone.
@pytest.mark.slow
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_real_agent_is_asked_once_more_in_its_own_session(agent: str, tmp_path: Path) -> None:
    # Claude reminds its model of the tool once by itself.
    first = [Turn(text="I would say maybe."), *([Turn(text="I still would.")] if agent == "claude" else [])]
    outcome, asked = run(Stage(SUITES[agent], tmp_path), [*first, gives(agent, GOOD)])
    assert outcome.code == 0, outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert outcome.attempt["output"] == GOOD
    again = [body for body in asked if "Your output does not fit" in body]
    assert again
    assert "I would say maybe." in again[-1]  # its history
    words = "codex_output_schema" if agent == "codex" else TOOLS.get(agent, "End your last message with one JSON value")
    assert any(words in body for body in asked)  # each was told by its own means
