"""Long executions: an agent whose window fills up goes on in a fresh session from a summary, in the same attempt and workspace."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from corral.testing.stage import Stage
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.suites import SUITES, claude_program
from tests.rig.waiting import until

WAITS = "until test -e go; do sleep 0.02; done"
FULL = Usage(input=1000, cache_read=164_000, output=200)  #: 82 % of 200000
GOING_ON = "You are in the middle of a task."


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={".gitignore": "go*\n", "a.txt": "a\n"})


def point(corral: Corral, model: ScriptedModel) -> None:
    corral.config(
        f'[agents.claude]\nprogram = "{claude_program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
    )
    corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"


def told(model: ScriptedModel) -> list[str]:
    """Return the first requests of sessions, of those that ask for work."""
    asked = [request.body for request in model.work_requests]
    return [json.dumps(body) for body in asked if not any(each["role"] == "assistant" for each in body["messages"])]


@pytest.fixture
def full(corral: Corral) -> Generator[ScriptedModel]:
    """A model whose second answer fills its window, in every session anew."""
    turns = [
        Turn(text="Decision: I count in Roman numerals.", sh="echo I >> count.txt"),
        Turn(text="And on.", sh="echo II >> count.txt; false", usage=FULL),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        point(corral, model)
        yield model


@pytest.mark.slow
def test_a_full_window_goes_on_from_a_summary(corral: Corral, repo: Repo, full: ScriptedModel) -> None:
    corral.config("[condense]\nmost = 1")
    outcome = corral.run(repo, "count to four", "--agent", "claude:claude-sonnet-4-5", "--check", "test -s count.txt")
    assert outcome.code == 0, outcome
    (attempt,) = outcome.json["nodes"][0]["attempts"]
    assert repo.read(attempt["branch"], "count.txt") == "I\nII\nI\nII"  # the workspace stayed
    (event,) = [event for event in corral.events() if event["type"] == "condensed"]
    assert "82 % of the window of claude-sonnet-4-5 (200000)" in event["reason"]
    first, second = told(full)
    assert GOING_ON not in first
    for words in (
        GOING_ON,
        "count to four",
        "test -s count.txt",
        "Decision: I count in Roman numerals.",
        "~/condensed/steps-1.md",
    ):
        assert words in second
    # What both sessions used is counted: two answers in the first, three in the second.
    assert attempt["tokens"]["cache_read"] == 2 * 164_000
    # On a busy machine its program asks once more before it is ended, and may be cut off within that answer.
    once_more = attempt["tokens"]["output"] - (200 + 20 + 200 + 20 + 20)
    assert 0 <= once_more <= 20
    assert attempt["cost"]["usd"] > 2 * 164_000 * 0.3e-6  # both sessions, though the first was cut before it reported
    assert "disputed" not in attempt["cost"]
    assert attempt["session"] != event["session"]
    assert not any(each["type"] == "ended" and not each.get("ok") for each in corral.events())


@pytest.mark.slow
def test_a_chain_of_three_summaries_and_all_originals_are_kept(corral: Corral, repo: Repo, full: ScriptedModel) -> None:
    corral.config("[condense]\nmost = 3")
    outcome = corral.run(repo, "count to eight", "--agent", "claude:claude-sonnet-4-5")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "count.txt").split() == ["I", "II"] * 4
    events = [json.loads(line) for line in corral("logs", "@last", "--summaries", "--json").out.splitlines()]
    assert [event["number"] for event in events] == [1, 2, 3]
    assert len({event["session"] for event in events}) == 3
    for event in events:
        assert "count to eight" in event["summary"]
        assert "Decision: I count in Roman numerals." in event["summary"]
    shown = corral("logs", "@last", "--summaries").out
    assert "# summary 3 of " in shown
    logs = corral.home / "logs" / outcome.attempt["id"]
    assert [(logs / f"summary-{number}.md").read_text() for number in (1, 2, 3)] == [each["summary"] for each in events]
    raw = (logs / "stdout.log").read_text()
    assert all(event["session"] in raw for event in events)  # every session, line by line
    assert "continues from summary 3" in corral("logs", "@last").out
    assert len(told(full)) == 4


@pytest.mark.slow
def test_a_person_may_ask_for_it(corral: Corral, repo: Repo) -> None:
    turns = [Turn(text="ready", sh=WAITS), Turn(text="I write.", sh="echo b > b.txt"), Turn(text="Done.")]
    with ScriptedModel(turns) as model:
        point(corral, model)
        with corral.going("run", "t", "--repo", repo.folder, "--agent", "claude", "--json") as run:
            corral.until_said("ready")
            answer = corral("condense", "@last")
            assert answer.code == 0, answer
            assert "continues from a summary after its present step" in answer.out
            (tree,) = (corral.home / "workspaces").glob("*/work")
            (tree / "go").touch()
            outcome = run.end()
        assert outcome.code == 0, outcome
        assert GOING_ON in told(model)[1]
    (event,) = [event for event in corral.events() if event["type"] == "condensed"]
    assert event["reason"].startswith("asked for by ")
    again = corral("condense", "@last")
    assert again.code == 2
    assert "at work" in again.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("codex", "Your input exceeds the context window of this model. Please adjust your input and try again."),
        pytest.param(
            *("gemini", "The input token count exceeds the maximum number of tokens allowed (1048576)."),
            marks=pytest.mark.night(
                "its start is expensive; its words are read in tests/agents/formats/test_error_words.py"
            ),
        ),
    ],
)
def test_too_long_a_context_is_condensed(agent: str, words: str, tmp_path: Path) -> None:
    stage = Stage(SUITES[agent], tmp_path)
    turns = [
        Turn(text="Decision: one file each.", sh="echo 1 > one.txt"),
        Turn(status=400, message=words, times=1, text="On.", sh="echo 2 > two.txt"),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        outcome = stage.run("--retries", "0", task="write two files")
        bodies = [json.dumps(request.body) for request in model.posts]
    assert outcome.code == 0, outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert sorted(outcome.attempt["files_changed"]) == ["one.txt", "two.txt"]
    fresh = [body for body in bodies if GOING_ON in body]
    assert "Decision: one file each." in fresh[0]
    (event,) = [event for event in stage.corral.events() if event["type"] == "condensed"]
    assert event["by"] == "rules"


@pytest.mark.slow
def test_words_that_are_too_long_from_the_start_cannot_be_condensed(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(status=400, message="prompt is too long: 214315 tokens > 200000 maximum")]) as model:
        point(corral, model)
        outcome = corral.run(repo, "t", "--agent", "claude", "--retries", "0")
    assert outcome.attempt["error"]["class"] == "context_too_long"
    assert not [event for event in corral.events() if event["type"] == "condensed"]


@pytest.mark.slow
def test_what_stays_too_long_ends(corral: Corral, repo: Repo) -> None:
    words = "prompt is too long: 214315 tokens > 200000 maximum"  # claude condenses by itself first, in vain
    with ScriptedModel([Turn(text="I start.", sh="echo 1 > one.txt"), Turn(status=400, message=words)]) as model:
        point(corral, model)
        corral.config("[condense]\nmost = 2")
        outcome = corral.run(repo, "t", "--agent", "claude", "--retries", "0")
    assert outcome.attempt["error"]["class"] == "context_too_long"
    assert sum(event["type"] == "condensed" for event in corral.events()) == 2
    assert outcome.attempt["files_changed"] == ["one.txt"]  # and its work is kept


SUMMARISER = """
case "$1" in *"Summarise the work below"*"count to four"*"echo I >> count.txt"*) echo "It counts; two lines are written.";; esac
"""


@pytest.mark.slow
def test_another_agent_may_write_the_summary(corral: Corral, repo: Repo, full: ScriptedModel) -> None:
    corral.agent("brief", SUMMARISER, 'prompt = "argument"\ncost_usd = 0.0')
    corral.config('[condense]\nmost = 1\nagent = "brief"')
    outcome = corral.run(repo, "count to four", "--agent", "claude:claude-sonnet-4-5")
    assert outcome.code == 0, outcome
    (event,) = [event for event in corral.events() if event["type"] == "condensed"]
    assert event["by"] == "brief"
    assert event["summary"].endswith("It counts; two lines are written.")
    assert "Decision: I count in Roman numerals." in event["summary"]  # it had left that out
    assert "two lines are written" in told(full)[1]
    assert corral.leavings() == []


@pytest.mark.slow
def test_rules_write_it_where_the_other_agent_fails(corral: Corral, repo: Repo, full: ScriptedModel) -> None:
    corral.agent("broken", "echo oh >&2; exit 3")
    corral.config('[condense]\nmost = 1\nagent = "broken"')
    outcome = corral.run(repo, "count to four", "--agent", "claude:claude-sonnet-4-5")
    assert outcome.code == 0, outcome
    (event,) = [event for event in corral.events() if event["type"] == "condensed"]
    assert event["by"] == "rules"
    assert any("broken gave no summary (it ended with 3: oh)" in event.get("text", "") for event in corral.events())
    assert len(told(full)) == 2


@pytest.mark.parametrize(
    "line",
    ["at = 1.5", "at = -1", 'at = "much"', "most = -1", 'windows = { "a" = 0 }', "share = 1", 'agent = "nobody"'],
)
def test_settings_that_cannot_be_meant(corral: Corral, repo: Repo, line: str) -> None:
    corral.config(f"[condense]\n{line}")
    outcome = corral.run(repo, "t", "--agent", corral.agent("a", "true"))
    assert outcome.code == 2, outcome
    assert "condense" in outcome.err


def test_an_agent_that_only_speaks_can_be_condensed_too(corral: Corral, repo: Repo) -> None:
    waits_again = "until test -e go-on; do sleep 0.02; done"
    leaves = 'trap "exit 0" TERM'  # as if it were done: it is not, for we end it
    script = f'{leaves}; printf "%s\n" "$1" >> told.txt; echo ready; {WAITS}; echo more; {waits_again}'
    corral.agent("plain", script, 'prompt = "argument"')
    with corral.going("run", "the task", "--repo", repo.folder, "--agent", "plain", "--json") as run:
        corral.until_said("ready")
        assert corral("condense", "@last").code == 0
        (tree,) = (corral.home / "workspaces").glob("*/work")
        (tree / "go").touch()
        until(lambda: any(event["type"] == "condensed" for event in corral.events()), "it is condensed")
        (tree / "go-on").touch()
        outcome = run.end()
    assert outcome.code == 0, outcome
    text = repo.read(outcome.attempt["branch"], "told.txt")
    assert text.startswith("the task\n")
    assert GOING_ON in text


def test_a_crash_after_a_summary_goes_on_from_that_summary(corral: Corral, repo: Repo) -> None:
    script = f'printf "%s\n----\n" "$1" >> told.txt; echo ready; {WAITS}; echo more; until test -e go-on; do sleep 0.02; done'
    corral.agent("plain", script, 'prompt = "argument"')
    with corral.going("run", "the task", "--repo", repo.folder, "--agent", "plain", "--json") as run:
        corral.until_said("ready")
        assert corral("condense", "@last").code == 0
        (tree,) = (corral.home / "workspaces").glob("*/work")
        (tree / "go").touch()
        until(lambda: (tree / "told.txt").read_text().count("----") == 2, "it goes on from a summary")
        run.process.kill()
        run.process.wait()
    (tree / "go-on").touch()
    outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert second["retry_of"] == first["id"]
    told_ = repo.read(second["branch"], "told.txt").split("----")
    assert GOING_ON not in told_[0]
    assert GOING_ON in told_[1]
    assert GOING_ON in told_[2]  # the third is told by the attempt that went on
    assert "the task" in told_[2]
