"""Every real agent that takes MCP servers reaches the toolbox of its attempt from inside its box."""

from collections.abc import Generator
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.conformance import KEY
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


ALL = (
    Real("claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "mcp__corral__{}", "ANTHROPIC_BASE_URL", ""),
    Real("codex", "gpt-5", "OPENAI_API_KEY", "mcp__corral__{}"),
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
    turns = [
        Turn(text="I say it.", tool=real.tool.format("report_progress"), input={"text": "half way", "percent": 50}),
        Turn(text="I look who is there.", tool=real.tool.format("list_nodes"), input={}),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as served:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env |= {real.key: KEY}
        named = f'program = "{program()}"\n' if real.name == "claude" else ""
        settings = f'{real.base} = "{served.url}{real.path}", AGENT_RETRIES = "0"'
        corral.config(f'[agents."{real.name}"]\n{named}settings = {{ {settings} }}\n')
        yield served


@pytest.mark.parametrize("real", ALL, ids=[agent.name for agent in ALL], indirect=True)
def test_the_real_agent_calls_its_toolbox(corral: Corral, real: Real, model: ScriptedModel) -> None:
    outcome = corral.run(corral.repo(), "look", "--agent", f"{real.name}:{real.model}", "--read-only")
    assert outcome.code == 0, outcome
    reports = [event for event in corral.events() if event["type"] == "reported"]
    assert [(each["text"], each["percent"]) for each in reports] == [("half way", 50.0)]
    told = str(model.asked[-1].body)
    assert outcome.json["run"] in told, "it was not told who is there"
    assert "letters_waiting" in told
