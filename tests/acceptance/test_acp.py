"""Agents that speak ACP, the real programs in the box against a scripted model, through the one client for all of them."""

from collections.abc import Generator
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from corral.testing.stage import KEY
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

WAITS = "until test -e go; do sleep 0.02; done"


class Real(NamedTuple):
    """How a program is pointed to the scripted model, and what it is known to leave out."""

    name: str
    model: str
    key: str
    asks: str  # where it sends its requests to
    base: str = "OPENAI_BASE_URL"
    path: str = "/v1"
    tokens: tuple[int, int] = (280, 33)
    asks_leave: bool = True

    @property
    def choice(self) -> str:
        return f"acp:{self.name}:{self.model}"


GEMINI = Real("gemini", "gemini-2.5-flash", "GEMINI_API_KEY", ":streamGenerateContent", "GOOGLE_GEMINI_BASE_URL", "")
OPENCODE = Real(
    "opencode", "fake-model", "OPENAI_API_KEY", "/chat/completions", tokens=(380, 53), asks_leave=False
)  # metered outside its box, with the title it asks for
QWEN = Real("qwen", "fake-model", "OPENAI_API_KEY", "/chat/completions", asks_leave=False)
COPILOT = Real("copilot", "fake-model", "COPILOT_PROVIDER_API_KEY", "/chat/completions")
CLAUDE = Real("claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "/v1/messages", "ANTHROPIC_BASE_URL", "")
CODEX = Real("codex", "gpt-5", "OPENAI_API_KEY", "/responses", asks_leave=False)
ALL = (GEMINI, OPENCODE, QWEN, COPILOT, CLAUDE, CODEX)


@pytest.fixture
def real(request: pytest.FixtureRequest) -> Real:
    return request.param


@pytest.fixture
def model(request: pytest.FixtureRequest, real: Real, corral: Corral) -> Generator[ScriptedModel]:
    with ScriptedModel(request.param) as served:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env[real.key] = KEY
        settings = f'{real.base} = "{served.url}{real.path}", AGENT_RETRIES = "0", CLAUDE_CODE_MAX_RETRIES = "1"'
        corral.config(f'[agents."acp:{real.name}"]\nsettings = {{ {settings} }}')
        yield served


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={".gitignore": "go\n", "a.txt": "a\n"})


def each(*agents: Real, night: tuple[Real, ...] = ()) -> pytest.MarkDecorator:
    """Try a test on each of these programs; on those named `night` only by night: their starts are expensive."""
    expensive = pytest.mark.night("its start is expensive")
    named = [pytest.param(agent, id=agent.name, marks=[expensive] if agent in night else []) for agent in agents]
    return pytest.mark.parametrize("real", named, indirect=True)


def script(*turns: Turn) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("model", [turns], ids=["scripted"], indirect=True)


def asked(model: ScriptedModel, real: Real, count: int) -> None:
    """Wait until the model was asked so often for work, not for a title."""
    until(
        lambda: sum(real.asks in request.path for request in model.work_requests) >= count,
        f"{real.name} asks its model {count} times",
    )


# By day opencode does as much in test_toolbox_agents.py; qwen is made from gemini, and works in test_conformance.py.
@each(*ALL, night=(OPENCODE, QWEN))
@script(
    Turn(text="I look.", sh='ln -s "$PWD" /tmp/here', usage=Usage(input=60, output=7)),  # their tools want whole paths
    Turn(
        text="I write it.",
        write={"path": "/tmp/here/hello.txt", "content": "hello\n"},
        usage=Usage(input=40, output=13),
    ),
    Turn(text="I run it.", sh="cat hello.txt > copy.txt", usage=Usage(input=150, output=10)),
    Turn(text="Done.", usage=Usage(input=30, output=3)),
)
def test_it_writes_a_file_and_runs_a_command(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    before = repo.fingerprint()
    outcome = corral.run(repo, "say hello", "--agent", real.choice, "--check", "test -s copy.txt")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["agent"] == f"acp:{real.name}"
    assert attempt["model"] == real.model
    assert attempt["output"] == "Done."
    assert attempt["session"]
    assert attempt["sandbox"]["level"] != "none"
    assert sorted(attempt["files_changed"]) == ["copy.txt", "hello.txt"]
    assert repo.read(attempt["branch"], "copy.txt") == "hello"
    used = (attempt["tokens"]["input"], attempt["tokens"]["output"])
    assert used == real.tokens
    assert repo.fingerprint() == before
    assert "say hello" in str([request.body for request in model.requests])
    events = corral.events()
    types = {event["type"] for event in events}
    assert {"started", "said", "called_tool", "tool_returned", "ended", "checked"} <= types
    assert bool([event for event in events if event["type"] == "asked" and event["answer"]]) == real.asks_leave


@each(GEMINI, COPILOT, CLAUDE, QWEN, night=(GEMINI, COPILOT, QWEN))
@script(Turn(text="I try.", sh="echo b > b.txt"), Turn(text="I could not."))
def test_a_read_only_task_is_refused_what_changes_things(
    corral: Corral, repo: Repo, real: Real, model: ScriptedModel
) -> None:
    outcome = corral.run(repo, "only look", "--agent", real.choice, "--read-only")
    assert outcome.code == 0, outcome
    assert not outcome.attempt["files_changed"]
    (refusal,) = [event for event in corral.events() if event["type"] == "asked"]
    assert refusal["answer"] in ("Reject", "Deny", "No")
    (ended,) = [event for event in corral.events() if event["type"] == "ended"]
    assert ended["denied"]
    assert model.requests


@each(GEMINI, CODEX, night=(GEMINI,))
@script(Turn(text="ready", sh=WAITS), Turn(text="First."), Turn(sh="echo b > b.txt"), Turn(text="Did both."))
def test_it_is_told_more_when_its_turn_ends(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", real.choice, "--json") as run:
        corral.until_said("ready")
        answer = corral("steer", "@last", "also write b.txt")
        assert answer.code == 0, answer
        (tree,) = (corral.home / "workspaces").glob("*/work")
        (tree / "go").touch()
        outcome = run.end()
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["b.txt"]
    assert outcome.attempt["output"] == "Did both."
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert len([event for event in corral.events() if event["type"] == "started"]) == 1  # one start, two turns
    assert any(event["type"] == "steer_taken" and event["text"] == "also write b.txt" for event in corral.events())
    assert "also write b.txt" in str(model.work_requests[-1].body)


# The box is ended, whoever is in it; that every program can be ended in it: the case `stopped` of test_conformance.py.
@each(GEMINI, CLAUDE, CODEX, night=(GEMINI, CLAUDE))
@script(Turn(text="I start.", sh="echo half > half.txt"), Turn(hang_seconds=600))
def test_stopped_in_the_middle_its_work_is_kept_and_nothing_is_left(
    corral: Corral, repo: Repo, real: Real, model: ScriptedModel
) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", real.choice, "--json") as going:
        asked(model, real, 2)
        run = until(lambda: corral("ls", "--json").json, "the run is there")[0]["run"]
        assert tagged_processes(f"CORRAL_ATTEMPT={run}")
        assert corral("stop", run).code == 0
        outcome = going.end()
    assert outcome.code == 130, outcome
    assert outcome.json["status"] == "stopped"
    assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"
    (ended,) = [event for event in corral.events() if event["type"] == "ended"]
    assert ended["status"] == "stopped"  # it was asked in its own language, and said so itself


@each(*ALL, night=(GEMINI, OPENCODE, QWEN, COPILOT))
@script(Turn(status=401, message="invalid api key"))
def test_a_wrong_key(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    outcome = corral.run(repo, "do it", "--agent", real.choice, "--retries", "0")
    assert outcome.code == 1, outcome
    assert outcome.attempt["error"]["class"] == "auth"
    assert outcome.attempt["error"]["hint"]
    assert model.requests


@each(OPENCODE, QWEN, COPILOT, CLAUDE, CODEX, night=(OPENCODE, QWEN, COPILOT, CLAUDE))
@script(
    Turn(text="I start.", sh="echo half > half.txt"),
    Turn(hang_seconds=600, times=1, text="And the rest.", sh="echo whole > whole.txt"),
    Turn(text="And the rest.", sh="echo whole > whole.txt"),  # some count their interrupted turn
    Turn(text="Done."),
)
def test_killed_in_the_middle_its_own_session_is_loaded(
    corral: Corral, repo: Repo, real: Real, model: ScriptedModel
) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", real.choice, "--json") as going:
        asked(model, real, 2)
        going.process.kill()
        going.process.wait()
    outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert second["retry_of"] == first["id"]
    assert second["session"] == first["session"]
    assert set(second["files_changed"]) == {"half.txt", "whole.txt"}
    assert "half.txt" in str(model.work_requests[-1].body)  # what it did before stands in its history
