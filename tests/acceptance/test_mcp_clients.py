"""Real programs as clients of `corral mcp`: Claude Code, OpenCode, Codex and the MCP Inspector, with a scripted model."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.agents import inspector, programs
from tests.rig.command import PROGRAM, Corral
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.suites import claude_program
from tests.rig.tries import BY_NIGHT

pytestmark = pytest.mark.slow

QUIET = {
    "TERM": "dumb",
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
}


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", 'echo "$1" > said.txt')
    corral.env["PATH"] = f"{PROGRAM.parent}:{programs()}:{corral.env['PATH']}"
    return corral


def program(corral: Corral, repo: Repo, *argv: str | Path, **env: str) -> str:
    """Run a client in a repository, with the person's environment; return what it printed."""
    done = subprocess.run(
        [*map(str, argv)],
        cwd=repo.folder,
        env={**corral.env, **QUIET, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def turns(tool: str, repo: Repo) -> list[Turn]:
    """The model delegates, looks at the change and lands it."""
    asked = {"path": str(repo.folder), "task": "write it down", "force_runtime": "mine", "checks": ["test -s said.txt"]}
    return [
        Turn(text="I delegate it.", tool=tool.format("engine_execute"), input=asked),
        Turn(text="I look.", tool=tool.format("engine_diff"), input={"run": "@last"}),
        Turn(text="I land it.", tool=tool.format("engine_merge"), input={"run": "@last"}),
        Turn(text="All is landed."),
    ]


def check(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    run: dict[str, Any] = corral("show", "@last", "--json").json
    assert run["status"] == "done"
    assert run["merge"]["status"] == "merged"
    assert "write it down" in (repo.folder / "said.txt").read_text()
    told = str(model.work_requests[-1].body)
    assert run["run"] in told, "the model was not given the run document"
    assert "+++ b/said.txt" in told, "the model was not given the change"
    assert '"status":"merged"' in told.replace("\\", "").replace('": "', '":"')


def test_claude_code_delegates_looks_and_lands(ready: Corral) -> None:
    repo, claude = ready.repo(), claude_program()
    with ScriptedModel(turns("mcp__corral__{}", repo)) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-fake"}
        program(ready, repo, claude, "mcp", "add", "corral", "--", "corral", "mcp", **env)
        assert "Connected" in program(ready, repo, claude, "mcp", "list", **env)
        tools = ",".join(f"mcp__corral__engine_{name}" for name in ("execute", "diff", "merge"))
        options = ("--model", "claude-sonnet-4-5", "--max-turns", "8", "--allowedTools", tools)
        said = program(ready, repo, claude, "-p", "Do the work", *options, **env)
        assert "All is landed." in said
        check(ready, repo, model)


@pytest.mark.night("it starts the command as Claude Code and Codex do; by day it does the same over HTTP")
def test_opencode_delegates_looks_and_lands(ready: Corral) -> None:
    local = {"type": "local", "command": ["corral", "mcp"], "enabled": True, "timeout": 60000}
    by_opencode(ready, local)


def test_opencode_does_so_over_http(ready: Corral) -> None:
    """A remote entry, with a token that may run and merge and no more."""
    with serving(ready, ready.root) as server:
        token = ready("token", "new", "--scope", "run", "--scope", "merge").out.strip()
        headers = {"Authorization": f"Bearer {token}"}
        by_opencode(ready, {"type": "remote", "url": f"{server.address}/mcp", "headers": headers, "oauth": False})


def by_opencode(ready: Corral, entry: dict[str, Any]) -> None:
    """Have OpenCode do the work with this entry of its settings."""
    repo = ready.repo()
    with ScriptedModel(turns("corral_{}", repo)) as model:
        settings = {
            "provider": {
                "fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{model.url}/v1", "apiKey": "sk-fake"},
                    "models": {"fake-model": {}},
                }
            },
            "mcp": {"corral": entry},
            "permission": "allow",
        }
        file = ready.root / "opencode.json"
        file.write_text(json.dumps(settings))
        env = {"OPENCODE_CONFIG": str(file)}
        if BY_NIGHT:  # a start of five seconds; that it connects is also seen by what it does
            assert "connected" in program(ready, repo, "opencode", "mcp", "list", **env)
        program(ready, repo, "opencode", "run", "--model", "fake/fake-model", "Do the work", **env)
        check(ready, repo, model)


def test_codex_delegates_looks_and_lands(ready: Corral) -> None:
    repo, home = ready.repo(), ready.root / "codex"
    home.mkdir()
    with ScriptedModel(turns("mcp__corral__{}", repo)) as model:
        env = {"CODEX_HOME": str(home), "OPENAI_API_KEY": "sk-fake"}
        provider = f'base_url = "{model.url}/v1"\nname = "fake"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"'
        (home / "config.toml").write_text(
            f'model = "gpt-5"\nmodel_provider = "fake"\n[model_providers.fake]\n{provider}\n'
        )
        listed = program(ready, repo, "codex", "mcp", "add", "corral", "--", "corral", "mcp", **env)
        assert "corral" in program(ready, repo, "codex", "mcp", "list", **env), listed
        file = home / "config.toml"
        env_of = ", ".join(f'{name} = "{ready.env[name]}"' for name in ("CORRAL_HOME", "XDG_CONFIG_HOME"))
        waits = f"required = true\nstartup_timeout_sec = 120\nenv = {{ {env_of} }}"  # the model is scripted: it asks at once
        file.write_text(file.read_text().replace("[mcp_servers.corral]", f"[mcp_servers.corral]\n{waits}"))
        alone = "--dangerously-bypass-approvals-and-sandbox"  # there is nobody to approve of a call
        said = program(ready, repo, "codex", "exec", "--skip-git-repo-check", alone, "Do the work", **env)
        assert "All is landed." in said
        check(ready, repo, model)


def test_the_inspector_lists_and_calls(ready: Corral) -> None:
    repo = ready.repo()
    told = [word for name in ("CORRAL_HOME", "XDG_CONFIG_HOME") for word in ("-e", f"{name}={ready.env[name]}")]
    server = [inspector(), "--cli", *told, PROGRAM, "mcp"]  # it passes on no environment but this
    listed = json.loads(program(ready, repo, *server, "--method", "tools/list"))
    assert len(listed["tools"]) == 19
    arguments = (f"path={repo.folder}", "task=write it", "force_runtime=mine", 'checks=["test -s said.txt"]')
    options = [word for each in arguments for word in ("--tool-arg", each)]
    called = program(ready, repo, *server, "--method", "tools/call", "--tool-name", "engine_execute", *options)
    result = json.loads(called)
    assert result["structuredContent"] == ready("show", "@last", "--json").json
    templates = json.loads(program(ready, repo, *server, "--method", "resources/templates/list"))
    assert len(templates["resourceTemplates"]) == 3
    prompts = json.loads(program(ready, repo, *server, "--method", "prompts/list"))
    assert len(prompts["prompts"]) == 4
