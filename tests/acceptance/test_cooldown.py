"""A quota that one run finds used up holds back every other run of that agent, until it is back or a person says so."""

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.command import Corral

pytestmark = pytest.mark.both_stores


def test_a_limit_that_one_run_meets_holds_back_the_next(corral: Corral) -> None:
    turns = [
        Turn(status=429, message="rate limit", retry_after_seconds=7200, times=1, text="I write.", sh="echo b > b.txt")
    ]
    corral.agent("strong", "echo work > work.txt", 'family = "ollama"')
    with ScriptedModel([*turns, Turn(text="Done.")]) as model:
        corral.config(f'[agents.ollama]\nsettings = {{ OLLAMA_HOST = "{model.url}", AGENT_RETRIES = "0" }}\n')
        repo = corral.repo()
        first = corral.run(repo, "t", "--agent", "ollama:m")
        assert first.code == 5, first
        asked = len(model.requests)
        second = corral.run(repo, "t", "--agent", "ollama:m")
        assert second.code == 5, second
        assert "as another run found out" in second.json["reason"]
        assert len(model.requests) == asked, "its model was asked again"
        switched = corral.run(repo, "t", "--agent", "ollama:m", "--fallback", "strong")
        assert switched.code == 0, switched
        assert switched.attempt["agent"] == "strong"
        resumed = corral("resume", first.json["run"], "--json")
        assert resumed.code == 0, resumed
        assert len(model.requests) > asked
    assert corral("ls", "--json").code == 0
