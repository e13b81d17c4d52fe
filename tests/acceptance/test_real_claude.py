"""The real Claude Code, in the box, against a scripted model: it works, is believed only with evidence, and can be ended."""

import importlib.util
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.repository import Repo
from tests.rig.tagged import tagged
from tests.rig.waiting import until

BUGGY = {"calc.py": "def add(a, b):\n    return a - b\n"}
CHECK = "python3 -c 'import calc; assert calc.add(1, 2) == 3'"
FIX = "printf 'def add(a, b):\\n    return a + b\\n' > calc.py"


def program() -> Path:
    found = importlib.util.find_spec("claude_agent_sdk")
    assert found is not None, "the real claude is not installed: tools/bootstrap dev"
    assert found.origin is not None
    return Path(found.origin).parent / "_bundled" / "claude"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files=BUGGY)


@pytest.fixture
def model(request: pytest.FixtureRequest, corral: Corral) -> Generator[ScriptedModel]:
    with ScriptedModel(request.param) as served:
        corral.config(
            f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{served.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        yield served


FIXING = [
    Turn(text="I fix it.", sh=FIX, usage=Usage(input=100, output=20)),
    Turn(text="Fixed.", usage=Usage(input=150, output=10)),
]


@pytest.mark.parametrize("model", [FIXING], indirect=True)
def test_a_task_end_to_end(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    before = repo.fingerprint()
    outcome = corral.run(repo, "fix add", "--agent", "claude:claude-sonnet-4-5", "--check", CHECK)
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["tokens"]["input"] == 250
    assert attempt["tokens"]["output"] == 30
    assert attempt["cost"]["source"] == "reported"
    assert attempt["cost"]["usd"] > 0
    assert attempt["session"]
    assert attempt["output"] == "Fixed."
    assert attempt["sandbox"]["level"] in BOXED
    assert "a + b" in repo.read(attempt["branch"], "calc.py")
    assert repo.fingerprint() == before
    assert "fix add" in str(model.requests[0].body)
    types = [event["type"] for event in corral.events()]
    for kind in ("started", "said", "called_tool", "tool_returned", "spent", "ended", "checked"):
        assert kind in types


@pytest.mark.parametrize("model", [[Turn(text="Done, all fixed!")]], indirect=True)
def test_saying_so_is_not_doing_so(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    outcome = corral.run(repo, "fix add", "--agent", "claude", "--check", CHECK)
    assert outcome.code == 1
    assert outcome.attempt["error"]["class"] == "no_change"
    assert model.requests


@pytest.mark.parametrize("model", [[Turn(status=401, message="invalid x-api-key")]], indirect=True)
def test_a_wrong_key_is_told_and_not_tried_again(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    outcome = corral.run(repo, "fix add", "--agent", "claude")
    assert outcome.code == 1
    assert outcome.attempt["error"]["class"] == "auth", outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert model.requests


@pytest.mark.parametrize(
    "model", [[Turn(text="I start.", sh="echo half > half.txt"), Turn(hang_seconds=600)]], indirect=True
)
def test_stopped_in_the_middle_its_work_is_kept_and_nothing_is_left(
    corral: Corral, repo: Repo, model: ScriptedModel
) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", "claude", "--json") as going:
        model.wait_for("/v1/messages", count=2)
        run = until(lambda: corral("ls", "--json").json, "the run is there")[0]["run"]
        assert tagged(f"CORRAL_ATTEMPT={run}")
        assert corral("stop", run).code == 0
        outcome = going.end()
    assert outcome.code == 130
    assert outcome.json["status"] == "stopped"
    assert not tagged(f"CORRAL_ATTEMPT={run}")
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"


RESUMED = [
    Turn(text="I start.", sh="echo half > half.txt"),
    Turn(hang_seconds=600, times=1, text="And the rest.", sh="echo whole > whole.txt"),
    Turn(text="And the rest.", sh="echo whole > whole.txt"),  # claude may count its interrupted turn
    Turn(text="Done."),
]


@pytest.mark.slow
@pytest.mark.parametrize("model", [RESUMED], indirect=True)
def test_killed_in_the_middle_its_own_session_goes_on(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", "claude", "--json") as going:
        model.wait_for("/v1/messages", count=2)
        until(lambda: any(event["type"] == "started" for event in corral.events()), "its session is known")
        going.process.kill()
        going.process.wait()
    outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert second["retry_of"] == first["id"]
    assert second["session"] == first["session"]
    assert set(second["files_changed"]) == {"half.txt", "whole.txt"}
    assert "half.txt" in str(model.requests[-1].body)  # what it did before stands in its history
