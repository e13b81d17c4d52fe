"""What each agent's own interactive program is started by: in the session of the attempt, where there is one."""

import pytest

from corral import agents
from corral.agents.protocol import Interactive
from corral.model.agent_api import AgentProfile, AgentTask

TASK = AgentTask(prompt="", workspace="/w", home="/h")
RESUMED = AgentTask(prompt="", workspace="/w", home="/h", model="m", session="s1")


def words(name: str, task: AgentTask, profile: AgentProfile | None = None) -> tuple[str, ...] | None:
    agent = agents.find(name, {name: profile} if profile else {})
    assert isinstance(agent, Interactive)
    command = agent.interact(task)
    assert command is None or command.stdin == b""
    return command.argv if command else None


@pytest.mark.parametrize(
    ("name", "resumed"),
    [
        ("claude", ("--resume", "s1")),
        ("codex", ("s1",)),
        ("gemini", ("--resume", "s1")),
        ("opencode", ("--session", "s1")),
    ],
)
def test_it_starts_on_a_terminal_and_resumes(name: str, resumed: tuple[str, ...]) -> None:
    fresh, again = words(name, TASK), words(name, RESUMED)
    assert fresh is not None
    assert again is not None
    assert fresh[0] == again[0] == name
    assert again[-len(resumed) :] == resumed
    assert "s1" not in fresh
    assert "m" in again
    assert not {"-p", "exec", "run", "--json", "--output-format", "--format"} & {*fresh, *again}


def test_codex_resumes_by_a_command_of_its_own() -> None:
    assert (words("codex", RESUMED) or ())[:2] == ("codex", "resume")


def test_a_command_has_one_where_its_settings_name_it() -> None:
    profile = AgentProfile(command=("mine",), interactive=("mine", "--chat", "{model}", "{workspace}", "{prompt}"))
    assert words("mine", RESUMED, profile) == ("mine", "--chat", "m", "/w", "")
    assert words("mine", TASK, AgentProfile(command=("mine",))) is None


def test_agents_without_one() -> None:
    assert not isinstance(agents.find("acp:gemini", {}), Interactive)
    assert not isinstance(agents.find("aider", {}), Interactive)
