"""The real agents, as the conformance suite wants to know them."""

import importlib.util
from pathlib import Path

from corral.testing.conformance import Conformance
from tests.rig.agents import programs

CHAT = "/chat/completions"
NO_RETRIES = {"AGENT_RETRIES": "0"}
OPENAI = {"url": "OPENAI_BASE_URL", "url_path": "/v1", "key": "OPENAI_API_KEY", "settings": NO_RETRIES}


def claude_program() -> Path:
    found = importlib.util.find_spec("claude_agent_sdk")
    assert found is not None, "the real claude is not installed: tools/bootstrap dev"
    assert found.origin is not None
    return Path(found.origin).parent / "_bundled" / "claude"


PATH = [str(programs())]
SUITES = {
    suite.agent: suite
    for suite in (
        Conformance(
            agent="claude",
            model="claude-sonnet-4-5",
            key="ANTHROPIC_API_KEY",
            url="ANTHROPIC_BASE_URL",
            asks="/messages",
            program=str(claude_program()),
        ),
        Conformance(agent="codex", model="gpt-5", asks="/responses", path=PATH, **OPENAI),
        Conformance(
            agent="gemini",
            model="gemini-2.5-flash",
            key="GEMINI_API_KEY",
            url="GOOGLE_GEMINI_BASE_URL",
            asks=":streamGenerateContent",
            path=PATH,
            settings=NO_RETRIES,
            statuses={"expired_key": 400},
        ),
        Conformance(agent="opencode", asks=CHAT, path=PATH, **OPENAI),
        Conformance(agent="qwen", asks=CHAT, path=PATH, statuses={"overloaded": 503}, **OPENAI),
        Conformance(
            agent="copilot",
            key="COPILOT_PROVIDER_API_KEY",
            url="OPENAI_BASE_URL",
            url_path="/v1",
            asks=CHAT,
            path=PATH,
            settings=NO_RETRIES,
            leaves_out={"resumes": "it tells its session with its last line only"},
        ),
    )
}
