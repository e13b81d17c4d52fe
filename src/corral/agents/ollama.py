"""Models that ollama serves, here or elsewhere, at work by our own loop; they cost nothing."""

from __future__ import annotations

from corral.agents.formats.own_loop import LOOP, OwnLoop
from corral.model.agent_api import AgentFacts, AgentProfile, Provider

FACTS = AgentFacts(
    name="ollama",
    family="ollama",
    programs=(LOOP,),
    version=("-I", "-m", "corral.boxed.loop", "--version"),
    keys=("OLLAMA_API_KEY",),  # not needed for a server on this machine
    address=("OLLAMA_HOST",),
    provider=Provider(address="OLLAMA_HOST", standard="http://127.0.0.1:11434", keys=("OLLAMA_API_KEY",)),
    models="qwen2.5-coder:32b",
    resumes=True,
    reports_cost=True,
    local=True,
    install="start a server: ollama serve; if it is not at localhost:11434, OLLAMA_HOST names its address",
)


class Ollama(OwnLoop):
    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile, FACTS, "qwen2.5-coder:32b", standard="qwen2.5-coder:32b")


AGENTS = {"ollama": Ollama}  #: by the names they are asked for
