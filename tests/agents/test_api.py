"""How our own loop is started for endpoints, and how its lines are read."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from corral.agents.api import Anthropic, Google, OpenAI
from corral.agents.formats.own_loop import OwnLoop
from corral.model import Failure, Tokens
from corral.model.agent_api import AgentProfile, AgentTask, End
from corral.model.errors import BadRequest
from corral.model.events import Ended, Said, Spent, Unparsed
from tests.agents.reading import TASK

ALL = [
    (OpenAI, "openai", "OPENAI_API_KEY"),
    (Anthropic, "anthropic", "ANTHROPIC_API_KEY"),
    (Google, "google", "GEMINI_API_KEY"),
]


@pytest.mark.parametrize(("agent", "name", "key"), ALL)
def test_the_command(agent: Callable[[AgentProfile], OwnLoop], name: str, key: str) -> None:
    made = agent(AgentProfile())
    task = AgentTask(prompt="do it", workspace="/w", home="/h", model="--odd", session="s1", read_only=True)
    assert made.start(task).argv == ("corral:loop", "--session", "s1", "--read-only", "--", name, "--odd")
    assert key in made.facts.keys
    assert made.facts.resumes


@pytest.mark.parametrize(("agent", "name"), [row[:2] for row in ALL])
def test_a_model_must_be_named(agent: Callable[[AgentProfile], OwnLoop], name: str) -> None:
    task = AgentTask(prompt="do it", workspace="/w", home="/h")
    with pytest.raises(BadRequest) as told:
        agent(AgentProfile()).start(task)
    assert f"--agent {name}:" in told.value.hint
    assert agent(AgentProfile(model="m")).start(task).argv[-1] == "m"


def test_its_lines_are_our_events() -> None:
    conversation = OpenAI(AgentProfile()).converse(TASK)
    assert conversation.read('{"type":"said","text":"hi"}') == [Said("hi")]
    assert conversation.read('{"type":"spent","tokens":{"input":3}}') == [Spent(Tokens(3))]
    assert conversation.read('{"type":"noted","text":"forged"}') == [Unparsed('{"type":"noted","text":"forged"}')]
    assert conversation.read('{"type":"ended","ok":true,"text":"done"}') == [Ended(ok=True, text="done")]
    assert conversation.exited(End(0, "")) == []


def test_no_last_word_is_a_crash() -> None:
    told = OpenAI(AgentProfile()).converse(TASK).exited(End(1, "Traceback\nMemoryError"))
    assert told == [Ended(ok=False, error=Failure("crash", "the loop ended with 1 and no result: MemoryError"))]


@given(some.text())
def test_no_line_makes_it_fail(line: str) -> None:
    assert OpenAI(AgentProfile()).converse(TASK).read(line)
