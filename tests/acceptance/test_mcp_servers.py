"""`[mcp.NAME]`: a person's MCP server is started by the real agents in their box, and its tools are called."""

from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn, noter
from corral.testing.stage import KEY
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.suites import claude_program as program

SERVER = Path(noter.__file__).read_text()


class Real(NamedTuple):
    """How a program is pointed to the scripted model, and what it calls the tool."""

    name: str
    model: str
    key: str
    tool: str
    base: str = "OPENAI_BASE_URL"
    path: str = "/v1"


#: The other programs call it in test_conformance.py and test_toolbox_agents.py.
ALL = (Real("claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "mcp__noter__note", "ANTHROPIC_BASE_URL", ""),)


def serve(folder: Path) -> Path:
    """Write the server down where the settings lie."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "noter.py"
    path.write_text(SERVER)
    return path


TABLE = '[mcp.noter]\ncommand = ["python3", "noter.py"]\nenv = ["COLOUR"]\nsettings = { SHAPE = "round" }\n'


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def real(request: pytest.FixtureRequest) -> Real:
    return request.param


@pytest.fixture
def model(real: Real, corral: Corral) -> Generator[ScriptedModel]:
    turns = [Turn(text="I note it.", tool=real.tool, input={"text": "seen"}), Turn(text="Noted.")]
    with ScriptedModel(turns) as served:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env |= {real.key: KEY, "COLOUR": "red"}
        named = f'program = "{program()}"\n' if real.name == "claude" else ""
        settings = f'{real.base} = "{served.url}{real.path}", AGENT_RETRIES = "0"'
        corral.config(f'[agents."{real.name}"]\n{named}settings = {{ {settings} }}\n{TABLE}')
        serve(corral.config_file.parent)
        yield served


@pytest.mark.slow
@pytest.mark.parametrize("real", ALL, ids=[agent.name for agent in ALL], indirect=True)
def test_the_real_agent_calls_its_tool(corral: Corral, repo: Repo, real: Real, model: ScriptedModel) -> None:
    outcome = corral.run(repo, "note that", "--agent", f"{real.name}:{real.model}")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["notes.txt"]
    assert repo.read(outcome.attempt["branch"], "notes.txt") == "seen redround"
    assert len(model.requests) >= 2


def test_an_agent_that_takes_none_works_without_and_that_is_said(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("plain", "echo b > b.txt")
    corral.config(TABLE)
    serve(corral.config_file.parent)
    outcome = corral("run", "t", "--repo", repo.folder, "--agent", agent)
    assert outcome.code == 0, outcome
    assert "the agent `plain` takes no MCP servers" in outcome.out + outcome.err


def test_a_repository_s_servers_need_trust(corral: Corral, repo: Repo) -> None:
    serve(repo.folder)
    repo.commit({"corral.toml": TABLE})
    agent = corral.agent("plain", "echo b > b.txt")
    refused = corral.run(repo, "t", "--agent", agent)
    assert refused.code == 2
    assert "[mcp]" in refused.err
    assert "corral trust" in refused.err
    assert corral.run(repo, "t", "--agent", agent, "--trust").code == 0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[mcp.noter]\ncommand = ["no-such-program"]', "there is no program `no-such-program`"),
        ("[mcp.noter]\ncommand = []", "has no command"),
        ('[mcp."a b"]\ncommand = ["sh"]', "is no name for a server"),
        ('[mcp.noter]\ncommad = ["sh"]', "did you mean `command`?"),
    ],
)
def test_bad_settings_are_refused_before_anything_starts(corral: Corral, repo: Repo, table: str, words: str) -> None:
    corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
    corral.config(table)
    outcome = corral.run(repo, "t", "--agent", "gemini")
    assert outcome.code == 2
    assert words in outcome.err
    assert not corral("ls", "--json").json
