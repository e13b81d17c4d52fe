"""Models behind an API at work by our own loop: OpenAI's and all that speak like it, Anthropic's, Google's."""

from __future__ import annotations

from urllib.parse import urlsplit

from corral.agents.formats.own_loop import LOOP, OwnLoop
from corral.model.agent_api import AgentFacts, AgentProfile, Provider

VERSION = ("-I", "-m", "corral.boxed.loop", "--version")


class OpenAI(OwnLoop):
    """Any OpenAI-compatible endpoint, by settings = { OPENAI_BASE_URL = ... }."""

    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _OPENAI, "gpt-5")


class Anthropic(OwnLoop):
    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _ANTHROPIC, "claude-sonnet-4-5")


class Google(OwnLoop):
    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, _GOOGLE, "gemini-2.5-flash")


def _facts(name: str, keys: tuple[str, ...], address: str, standard: str, models: str) -> AgentFacts:
    return AgentFacts(
        name=name,
        family=name,
        programs=(LOOP,),
        version=VERSION,
        keys=keys,
        address=(address,),
        provider=Provider(address=address, standard=standard, keys=keys),
        hosts=(urlsplit(standard).netloc,),
        resumes=True,
        models=models,
        install=f"set {keys[0]}, or name an endpoint by [agents.{name}] settings",
    )


_OPENAI = _facts("openai", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", "https://api.openai.com/v1", "gpt-5")
_ANTHROPIC = _facts(
    "anthropic", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "claude-sonnet-4-5"
)
_GOOGLE = _facts(
    "google",
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "GOOGLE_GEMINI_BASE_URL",
    "https://generativelanguage.googleapis.com",
    "gemini-2.5-flash",
)


AGENTS = {"anthropic": Anthropic, "google": Google, "openai": OpenAI}  #: by the names they are asked for
