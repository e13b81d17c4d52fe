"""One agent, several ways to drive it: `method` of its table says which."""

import pytest

from corral import agents
from corral.agents.acp import Acp
from corral.agents.api import Anthropic, Google, OpenAI
from corral.agents.claude import Claude
from corral.model.agent_api import AgentProfile, Method
from corral.model.errors import BadRequest


@pytest.mark.parametrize(
    ("name", "method", "kind", "called"),
    [
        ("claude", "cli", Claude, "claude"),
        ("claude", "acp", Acp, "acp:claude"),
        ("claude", "api", Anthropic, "anthropic"),
        ("gemini", "acp", Acp, "acp:gemini"),
        ("gemini", "api", Google, "google"),
        ("codex", "api", OpenAI, "openai"),
    ],
)
def test_the_method_chooses_the_way(name: str, method: Method, kind: type, called: str) -> None:
    found = agents.find(name, {name: AgentProfile(method=method, model="m")})
    assert (type(found), found.facts.name) == (kind, called)


def test_an_agent_that_is_like_another_may_have_a_method() -> None:
    found = agents.find("lead", {"lead": AgentProfile(like="gemini", method="acp")})
    assert found.facts.name == "acp:gemini"


@pytest.mark.parametrize(("name", "method"), [("aider", "acp"), ("opencode", "api"), ("anthropic", "acp")])
def test_a_way_that_does_not_exist_is_refused(name: str, method: Method) -> None:
    with pytest.raises(BadRequest, match="cannot be driven"):
        agents.find(name, {name: AgentProfile(method=method)})
