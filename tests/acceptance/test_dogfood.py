"""What the earlier systems wanted to prove with themselves: real Claude Code processes, one after another, in a flow."""

from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.command import Corral
from tests.rig.flows import nodes, statuses, winner, write
from tests.rig.suites import claude_program

pytestmark = pytest.mark.slow

RULES = Path(__file__).parents[2] / "src" / "corral" / "rules"
#: Each claude does what is next by what it finds in its workspace: that is how the work before it arrives.
STEPS = """if [ ! -f spec.md ]; then echo 'add(a, b) returns the sum' > spec.md
elif [ ! -f calc.py ]; then printf '# %s\\ndef add(a, b):\\n    return a + b\\n' "$(cat spec.md)" > calc.py
else python3 -c 'import calc; print(calc.add(2, 3))' > tested.txt; fi"""
FLOW = """name: dogfood
defaults: {agent: "claude:claude-sonnet-4-5", retries: 0}
nodes:
  design: {role: architect, task: "Specify an adder in spec.md"}
  implement: {needs: [design], role: developer, task: "Implement spec.md", checks: ["python3 -c 'import calc; assert calc.add(1, 2) == 3'"]}
  test: {needs: [implement], role: reviewer, task: "Try what was made; write what it does to tested.txt"}
"""
ITSELF = """if ! grep -q 'def shout' src/naming.py; then
printf '\\n\\ndef shout(name: str) -> str:\\n    return name.upper()\\n' >> src/naming.py
else printf 'from naming import shout\\n\\n\\ndef test_shout():\\n    assert shout("run") == "RUN"\\n' > src/test_shout.py; fi"""


@pytest.fixture
def model(request: pytest.FixtureRequest, corral: Corral) -> Generator[ScriptedModel]:
    turns = [
        Turn(text="I do my step.", sh=request.param),
        Turn(text="DECISION: plain functions. OPEN: negative numbers?"),
    ]
    with ScriptedModel(turns) as served:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{served.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        yield served


@pytest.mark.parametrize("model", ["echo hello > hello.txt"], indirect=True)
def test_one_agent_writes_a_file(corral: Corral, model: ScriptedModel) -> None:
    repo = corral.repo()
    outcome = corral.run(repo, "write hello.txt", "--agent", "claude:claude-sonnet-4-5", "--check", "test -f hello.txt")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "hello.txt") == "hello"
    assert model.requests


@pytest.mark.parametrize("model", [STEPS], indirect=True)
def test_an_architect_a_developer_and_a_reviewer_each_go_on_from_the_last(corral: Corral, model: ScriptedModel) -> None:
    repo = corral.repo()
    file = write(corral, FLOW)
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert outcome.code == 0, outcome
    assert statuses(outcome) == {"design": "done", "implement": "done", "test": "done"}
    found = nodes(outcome)
    commit = winner(found["test"])["commit"]
    assert repo.read(commit, "calc.py").startswith("# add(a, b) returns the sum")
    assert repo.read(commit, "tested.txt") == "5"
    assert [winner(found[name])["role"] for name in found] == ["architect", "developer", "reviewer"]
    bodies = [str(request.body) for request in model.requests]
    developer = next(body for body in bodies if "Implement spec.md" in body)
    for words in (
        "## design (claude, architect, done)",
        "spec.md (+1 -0)",
        "DECISION: plain functions",
        "OPEN: negative",
    ):
        assert words in developer
    reviewer = next(body for body in bodies if "Try what was made" in body)
    assert "## implement (claude, developer, done)" in reviewer
    assert len({winner(found[name])["session"] for name in found}) == 3


@pytest.mark.parametrize("model", [ITSELF], indirect=True)
def test_it_builds_a_feature_of_itself(corral: Corral, model: ScriptedModel) -> None:
    repo = corral.repo(files={f"src/{path.name}": path.read_text() for path in RULES.glob("*.py")})
    file = write(corral, """
defaults: {agent: "claude:claude-sonnet-4-5", retries: 0}
nodes:
  build: {task: "Let naming.py shout", checks: ["cd src && python3 -c 'import naming; assert naming.shout(\\"a\\") == \\"A\\"'"]}
  test: {needs: [build], type: test, task: "Write the test", checks: ["cd src && python3 -c 'import test_shout; test_shout.test_shout()'"]}
  land: {needs: [test], merge: {into: main}}
""")  # fmt: skip
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert outcome.code == 0, outcome
    assert "def shout" in repo.read("main", "src/naming.py")
    assert "def shout" in (repo.folder / "src" / "naming.py").read_text()
    assert "src/test_shout.py" in repo.files("main")
    assert model.requests
