"""Real agents beyond what the conformance suite asks of all: Claude Code tells its cost, Node programs run on the person's Node."""

from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from corral.testing.stage import Stage
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.repository import Repo
from tests.rig.suites import SUITES, claude_program

BUGGY = {"calc.py": "def add(a, b):\n    return a - b\n"}
CHECK = "python3 -c 'import calc; assert calc.add(1, 2) == 3'"
FIX = "printf 'def add(a, b):\\n    return a + b\\n' > calc.py"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files=BUGGY)


@pytest.fixture
def model(request: pytest.FixtureRequest, corral: Corral) -> Generator[ScriptedModel]:
    with ScriptedModel(request.param) as served:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{served.url}" }}\n'
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
    assert "fix add" in str(model.work_requests[0].body)
    types = [event["type"] for event in corral.events()]
    for kind in ("started", "said", "called_tool", "tool_returned", "spent", "ended", "checked"):
        assert kind in types


LIKE_CODEX = pytest.mark.night("its start is expensive, and it reads the file by itself, as codex does")


@pytest.mark.slow
def test_gemini_runs_on_the_node_of_the_person(tmp_path: Path) -> None:
    stage = Stage(SUITES["gemini"], tmp_path)
    look = "cat /proc/[0-9]*/maps 2>/dev/null | grep -o '/.*/bin/node$' | sort -u > node.txt"
    with ScriptedModel([Turn(text="I look.", sh=look), Turn(text="Done.")]) as model:
        stage.point_to(model.url)
        outcome = stage.run(task="which node?")
    assert outcome.code == 0, outcome
    assert Repo(stage.repo).read(outcome.attempt["branch"], "node.txt") == str((programs() / "node").resolve())


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", ["codex", "gemini", *(pytest.param(name, marks=LIKE_CODEX) for name in ("opencode", "qwen", "copilot"))]
)
def test_the_repositorys_agents_file_reaches_the_model_whoever_reads_it(agent: str, tmp_path: Path) -> None:
    stage = Stage(SUITES[agent], tmp_path)
    Repo(stage.repo).commit({"AGENTS.md": "The password of the day is swordfish-71.\n"})
    with ScriptedModel([Turn(text="Seen.")]) as model:
        stage.point_to(model.url)
        outcome = stage.run("--read-only", task="look")
    assert outcome.code == 0, outcome
    assert any("swordfish-71" in str(request.body) for request in model.requests)
    told = stage.corral("logs", "@last", "--prompt").out
    assert ("swordfish-71" in told) == (agent == "gemini")  # the others read it by themselves


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", ["codex", *(pytest.param(name, marks=LIKE_CODEX) for name in ("claude", "gemini", "opencode", "qwen"))]
)
def test_address_and_key_of_the_environment_suffice(agent: str, tmp_path: Path) -> None:
    suite = SUITES[agent]
    stage = Stage(suite, tmp_path)
    if suite.program:
        stage.corral.config(f'[agents.{agent}]\nprogram = "{suite.program}"\n')
    with ScriptedModel([Turn(text="Seen.")]) as model:
        stage.corral.env[suite.url] = model.url + suite.url_path
        outcome = stage.run("--read-only", "--retries", "0", task="look")
        listed = {each["name"]: each for each in stage.corral("agents", "--json").json}
    assert outcome.code == 0, outcome
    assert model.work_requests
    assert listed[agent]["login"] == suite.key
    assert listed[agent]["address"] == model.url + suite.url_path
