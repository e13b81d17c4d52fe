"""How our own loop is started for ollama."""

from corral.agents.ollama import Ollama
from corral.model.agent_api import AgentProfile, AgentTask

TASK = AgentTask(prompt="do it", workspace="/w", home="/h", model="qwen2.5-coder:32b")


def test_the_command() -> None:
    command = Ollama(AgentProfile()).start(TASK)
    assert command.argv == ("corral:loop", "--", "ollama", "qwen2.5-coder:32b")
    assert command.stdin == b"do it"


def test_without_a_model_there_is_a_usual_one() -> None:
    task = AgentTask(prompt="x", workspace="/w", home="/h")
    assert Ollama(AgentProfile()).start(task).argv[-1] == "qwen2.5-coder:32b"
    assert Ollama(AgentProfile(model="llama3.2")).start(task).argv[-1] == "llama3.2"


def test_its_facts() -> None:
    facts = Ollama(AgentProfile()).facts
    assert facts.resumes
    assert facts.reports_cost
    assert "OLLAMA_HOST" in facts.address
