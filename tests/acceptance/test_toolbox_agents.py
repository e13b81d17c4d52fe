"""Every real agent that takes MCP servers reaches the toolbox of its attempt, and a person's own server, in its box."""

from collections.abc import Generator
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn, noter
from corral.testing.stage import KEY
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.suites import claude_program as program

pytestmark = pytest.mark.slow


class Real(NamedTuple):
    """How a program is pointed to the scripted model, and what it calls a tool of the toolbox."""

    name: str
    model: str
    key: str
    tool: str
    base: str = "OPENAI_BASE_URL"
    path: str = "/v1"
    looks_only: bool = False  #: tried while it may change nothing; it calls a person's server in test_conformance.py

    def named(self, server: str, tool: str) -> str:
        return self.tool.format(tool).replace("corral", server)


NOTER = f'[mcp.noter]\ncommand = ["python3", "{noter.__file__}"]\nenv = ["COLOUR"]\nsettings = {{ SHAPE = "round" }}\n'
ALL = (
    Real(
        "claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "mcp__corral__{}", "ANTHROPIC_BASE_URL", "", looks_only=True
    ),
    Real("codex", "gpt-5", "OPENAI_API_KEY", "mcp__corral__{}", looks_only=True),
    Real("gemini", "gemini-2.5-flash", "GEMINI_API_KEY", "mcp_corral_{}", "GOOGLE_GEMINI_BASE_URL", ""),
    Real("opencode", "fake-model", "OPENAI_API_KEY", "corral_{}"),
    Real("qwen", "fake-model", "OPENAI_API_KEY", "mcp__corral__{}"),
    Real("copilot", "fake-model", "COPILOT_PROVIDER_API_KEY", "corral-{}"),
    Real("acp:gemini", "gemini-2.5-flash", "GEMINI_API_KEY", "mcp_corral_{}", "GOOGLE_GEMINI_BASE_URL", ""),
    Real("acp:claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "mcp__corral__{}", "ANTHROPIC_BASE_URL", ""),
    Real("acp:opencode", "fake-model", "OPENAI_API_KEY", "corral_{}"),
)


@pytest.fixture
def real(request: pytest.FixtureRequest) -> Real:
    return request.param


@pytest.fixture
def model(real: Real, corral: Corral) -> Generator[ScriptedModel]:
    note = Turn(text="I note it.", tool=real.named("noter", "note"), input={"text": "seen"})
    turns = [
        Turn(text="I say it.", tool=real.tool.format("report_progress"), input={"text": "half way", "percent": 50}),
        Turn(text="I look who is there.", tool=real.tool.format("list_nodes"), input={}),
        *([] if real.looks_only else [note]),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as served:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env |= {real.key: KEY, "COLOUR": "red"}
        named = f'program = "{program()}"\n' if real.name == "claude" else ""
        settings = f'{real.base} = "{served.url}{real.path}", AGENT_RETRIES = "0"'
        corral.config(f'[agents."{real.name}"]\n{named}settings = {{ {settings} }}\n{NOTER}')
        yield served


#: By night alone: qwen is given its servers as gemini is, and these two speak ACP as claude does, whose start takes least.
LIKE_OTHERS = {"qwen": "gemini", "acp:gemini": "acp:claude", "acp:opencode": "acp:claude"}


def _parameters(agent: Real) -> object:
    like = LIKE_OTHERS.get(agent.name)
    marks = [pytest.mark.night(f"its start is expensive, and it is given its servers as {like} is")] if like else []
    return pytest.param(agent, id=agent.name, marks=marks)


@pytest.mark.parametrize("real", [_parameters(agent) for agent in ALL], indirect=True)
def test_the_real_agent_calls_its_toolbox(corral: Corral, real: Real, model: ScriptedModel) -> None:
    repo, words = corral.repo(), ["--read-only"] if real.looks_only else []
    outcome = corral.run(repo, "look", "--agent", f"{real.name}:{real.model}", *words)
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ([] if real.looks_only else ["notes.txt"])
    if not real.looks_only:
        assert repo.read(outcome.attempt["branch"], "notes.txt") == "seen redround"
    reports = [event for event in corral.events() if event["type"] == "reported"]
    assert [(each["text"], each["percent"]) for each in reports] == [("half way", 50.0)]
    told = str(model.work_requests[-1].body)
    assert outcome.json["run"] in told, "it was not told who is there"
    assert "messages_waiting" in told
