"""The real agents, as the conformance suite wants to know them."""

import importlib.util
from dataclasses import replace
from pathlib import Path

from corral.testing.conformance import Conformance
from tests.rig.agents import programs

TOO_LONG = (
    "it asks again for a minute and a half, and cannot be told not to; its words are tried in test_error_words.py"
)
NO_RETRIES = {"AGENT_RETRIES": "0"}


def claude_program() -> Path:
    found = importlib.util.find_spec("claude_agent_sdk")
    assert found is not None, "the real claude is not installed: tools/bootstrap dev"
    assert found.origin is not None
    return Path(found.origin).parent / "_bundled" / "claude"


#: Speaks the chat format of OpenAI; most do, or nearly.
CHAT = Conformance(
    agent="chat",
    key="OPENAI_API_KEY",
    url="OPENAI_BASE_URL",
    url_path="/v1",
    asks="/chat/completions",
    path=[str(programs())],
    settings=NO_RETRIES,
)
CLAUDE = Conformance(
    agent="claude",
    model="claude-sonnet-4-5",
    key="ANTHROPIC_API_KEY",
    url="ANTHROPIC_BASE_URL",
    asks="/messages",
    output_tool="StructuredOutput",
    program=str(claude_program()),
)
GEMINI = Conformance(
    agent="gemini",
    model="gemini-2.5-flash",
    key="GEMINI_API_KEY",
    url="GOOGLE_GEMINI_BASE_URL",
    asks=":streamGenerateContent",
    tool="mcp_noter_note",
    path=[str(programs())],
    settings=NO_RETRIES,
    statuses={"expired_key": 400},
)
COPILOT = replace(
    CHAT,
    agent="copilot",
    key="COPILOT_PROVIDER_API_KEY",
    tool="noter-note",
    tells_session_late=True,
)
SUITES = {
    suite.agent: suite
    for suite in (
        CLAUDE,
        replace(CHAT, agent="codex", model="gpt-5", asks="/responses"),
        GEMINI,
        replace(CHAT, agent="opencode", tool="noter_note", idle_seconds=20, leaves_out={"endpoint_down": TOO_LONG}),
        replace(
            CHAT,
            agent="qwen",
            output_tool="structured_output",
            statuses={"overloaded": 503},
            idle_seconds=20,
            leaves_out={"endpoint_down": TOO_LONG},
        ),
        COPILOT,
    )
}
