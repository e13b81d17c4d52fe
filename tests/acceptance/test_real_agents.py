"""The real agent programs, in the box, against a scripted model: each works, fails for its own reason, and can be ended."""

from collections.abc import Generator
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.agents import give, programs
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.repository import Repo
from tests.rig.tagged import tagged
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`


class Real(NamedTuple):
    """How a program is pointed to the scripted model."""

    name: str
    model: str
    key: str
    asks: str  # where it sends its requests to
    base: str = "OPENAI_BASE_URL"
    path: str = "/v1"

    @property
    def choice(self) -> str:
        return f"{self.name}:{self.model}"


CODEX = Real("codex", "gpt-5", "OPENAI_API_KEY", "/responses")
GEMINI = Real("gemini", "gemini-2.5-flash", "GEMINI_API_KEY", ":streamGenerateContent", "GOOGLE_GEMINI_BASE_URL", "")
OPENCODE = Real("opencode", "fake-model", "OPENAI_API_KEY", "/chat/completions")
QWEN = Real("qwen", "fake-model", "OPENAI_API_KEY", "/chat/completions")
COPILOT = Real("copilot", "fake-model", "COPILOT_PROVIDER_API_KEY", "/chat/completions")
ALL = (CODEX, GEMINI, OPENCODE, QWEN, COPILOT)


@pytest.fixture
def real(request: pytest.FixtureRequest) -> Real:
    return request.param


@pytest.fixture
def model(request: pytest.FixtureRequest, real: Real, corral: Corral) -> Generator[ScriptedModel]:
    with ScriptedModel(request.param) as served:
        give(corral, real.name, real.key, {real.base: served.url + real.path, "AGENT_RETRIES": "0"})
        yield served


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def each(*agents: Real) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("real", agents, ids=[agent.name for agent in agents], indirect=True)


def script(*turns: Turn) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("model", [turns], ids=["scripted"], indirect=True)


@each(*ALL)
@script(
    Turn(text="I look.", sh='ln -s "$PWD" /tmp/here', usage=Usage(input=60, output=7)),  # their tools want whole paths
    Turn(
        text="I write it.",
        write={"path": "/tmp/here/hello.txt", "content": "hello\n"},
        usage=Usage(input=40, output=13),
    ),
    Turn(text="I run it.", sh="cat hello.txt > copy.txt", usage=Usage(input=150, output=10)),
    Turn(text="Done.", usage=Usage(input=30, output=3)),
)
def test_it_writes_a_file_and_runs_a_command(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    before = repo.fingerprint()
    outcome = corral.run(repo, "say hello", "--agent", real.choice, "--check", "test -s copy.txt")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["status"] == "done"
    assert attempt["output"] == "Done."
    assert attempt["session"]
    assert attempt["sandbox"]["level"] in BOXED
    assert sorted(attempt["files_changed"]) == ["copy.txt", "hello.txt"]
    assert repo.read(attempt["branch"], "copy.txt") == "hello"
    used = (attempt["tokens"]["input"], attempt["tokens"]["output"])
    assert used == (280, 33)  # metered on the way where the program does not tell
    assert repo.fingerprint() == before
    assert "say hello" in str([request.body for request in model.requests])
    types = {event["type"] for event in corral.events()}
    assert {"started", "said", "called_tool", "tool_returned", "ended", "checked"} <= types


def failing(agents: dict[Real, int], retry_after_seconds: float | None = None) -> pytest.MarkDecorator:
    """Let each agent be refused with a status."""
    turns = {
        agent: [Turn(status=status, message="the provider says no", retry_after_seconds=retry_after_seconds)]
        for agent, status in agents.items()
    }
    ids = [agent.name for agent in agents]
    return pytest.mark.parametrize(("real", "model"), list(turns.items()), ids=ids, indirect=True)


def run_and_fail(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> str:
    outcome = corral.run(repo, "do it", "--agent", real.choice, "--retries", "0")
    assert outcome.code in (1, 5), outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert model.requests
    return outcome.attempt["error"]["class"]


@failing(dict.fromkeys(ALL, 401))
def test_a_wrong_key(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    assert run_and_fail(corral, repo, real, model) == "auth"


# Some cannot be told to try less often, but all wait as long as the provider says.


@pytest.mark.slow
@failing(dict.fromkeys(ALL, 429), retry_after_seconds=1)
def test_too_many_requests(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    assert run_and_fail(corral, repo, real, model) == "rate_limit"


@pytest.mark.slow
@failing({CODEX: 500, GEMINI: 500, OPENCODE: 500, QWEN: 503, COPILOT: 500}, retry_after_seconds=1)
def test_a_provider_that_is_down(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    assert run_and_fail(corral, repo, real, model) == "overloaded"


@pytest.mark.slow
@each(*ALL)
@script(Turn(text="I start.", sh="echo half > half.txt"), Turn(hang_seconds=600))
def test_stopped_in_the_middle_its_work_is_kept_and_nothing_is_left(
    corral: Corral, repo: Repo, real: Real, model: ScriptedModel
) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", real.choice, "--json") as going:
        asked(model, real, 2)
        run = until(lambda: corral("ls", "--json").json, "the run is there")[0]["run"]
        assert tagged(f"CORRAL_ATTEMPT={run}")
        assert corral("stop", run).code == 0
        outcome = going.end()
    assert outcome.code == 130, outcome
    assert outcome.json["status"] == "stopped"
    assert not tagged(f"CORRAL_ATTEMPT={run}")
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"


def asked(model: ScriptedModel, real: Real, count: int) -> None:
    """Wait until the model was asked so often for work, not for a title."""
    until(
        lambda: sum(r.path.endswith(real.asks) and "tools" in r.body for r in model.requests) >= count,
        f"{real.name} asks its model {count} times",
    )


@pytest.mark.slow
@each(CODEX, GEMINI, OPENCODE, QWEN)  # copilot tells its session with its last line only
@script(
    Turn(text="I start.", sh="echo half > half.txt"),
    Turn(hang_seconds=600, times=1, text="And the rest.", sh="echo whole > whole.txt"),
    Turn(text="And the rest.", sh="echo whole > whole.txt"),  # some count their interrupted turn
    Turn(text="Done."),
)
def test_killed_in_the_middle_its_own_session_goes_on(
    corral: Corral, repo: Repo, real: Real, model: ScriptedModel
) -> None:
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", real.choice, "--json") as going:
        asked(model, real, 2)
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


@each(GEMINI)
@script(
    Turn(text="I look.", sh="cat /proc/[0-9]*/maps 2>/dev/null | grep -o '/.*/bin/node$' | sort -u > node.txt"),
    Turn(text="Done."),
)
def test_it_runs_on_the_node_of_the_person(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    outcome = corral.run(repo, "which node?", "--agent", real.choice)
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "node.txt") == str((programs() / "node").resolve())
    assert model.requests


@each(*ALL)
@script(Turn(text="Seen."))
def test_the_repositorys_agents_file_reaches_the_model_whoever_reads_it(
    corral: Corral, repo: Repo, model: ScriptedModel, real: Real
) -> None:
    repo.commit({"AGENTS.md": "The password of the day is swordfish-71.\n"})
    outcome = corral.run(repo, "look", "--agent", real.choice, "--read-only")
    assert outcome.code == 0, outcome
    assert any("swordfish-71" in str(request.body) for request in model.requests)
    told = corral("logs", "@last", "--prompt").out
    assert ("swordfish-71" in told) == (real.name == "gemini")  # the others read it by themselves
