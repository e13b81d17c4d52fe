"""Models behind an API at work by our own loop: OpenAI's and all that speak like it, Anthropic's, Google's."""

from __future__ import annotations

from corral.adapter import AgentFacts, AgentProfile
from corral.agents.own_loop import LOOP, OwnLoop

VERSION = ("-I", "-m", "corral.loop", "--version")


class OpenAI(OwnLoop):
    """Any OpenAI-compatible endpoint, by settings = { OPENAI_BASE_URL = ... }."""

    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _facts("openai", "OPENAI_API_KEY"), "gpt-5")


class Anthropic(OwnLoop):
    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _facts("anthropic", "ANTHROPIC_API_KEY"), "claude-sonnet-4-5")


class Google(OwnLoop):
    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _facts("google", "GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-2.5-flash")


def _facts(name: str, *keys: str) -> AgentFacts:
    return AgentFacts(
        name=name,
        family=name,
        programs=(LOOP,),
        version=VERSION,
        keys=keys,
        resumes=True,
        install=f"set {keys[0]}, or name an endpoint by [agents.{name}] settings",
    )
