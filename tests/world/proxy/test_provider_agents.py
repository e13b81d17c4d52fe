"""Real agents at work with a placeholder for a key: the provider gets the real one, the agent's shell never sees it."""

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from corral.rules.scope.hosts import api_paths
from corral.testing import ScriptedModel, Turn, Usage
from corral.world.proxy.provider import Key, ProviderProxy, Upstream
from corral.world.proxy.secret import SecretValue
from tests.rig.agents import programs
from tests.rig.proxies import Kept, serving

pytestmark = pytest.mark.slow  # real programs

REAL, PLACEHOLDER = "sk-real-0123456789abcdef", "sk-corral-placeholder-0123"
ADDRESSES = {"claude": "ANTHROPIC_BASE_URL", "codex": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
Start = Callable[[str, Path], tuple[Sequence[str], dict[str, str]]]


def claude(url: str, home: Path) -> tuple[Sequence[str], dict[str, str]]:
    found = importlib.util.find_spec("claude_agent_sdk")
    assert found is not None
    assert found.origin is not None
    program = Path(found.origin).parent / "_bundled" / "claude"
    argv = [
        str(program), "-p", "Do the work", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5",
        "--max-turns", "6", "--strict-mcp-config", "--permission-mode", "acceptEdits", "--allowedTools", "Write,Read,Bash",
    ]  # fmt: skip
    env = {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": PLACEHOLDER, "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_MAX_RETRIES": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    }  # fmt: skip
    return argv, env


def codex(url: str, home: Path) -> tuple[Sequence[str], dict[str, str]]:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "custom"\napproval_policy = "never"\ncheck_for_update_on_startup = false\n'
        '[analytics]\nenabled = false\n[feedback]\nenabled = false\n[otel]\nexporter = "none"\n'
        f'[model_providers.custom]\nname = "custom"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
        'wire_api = "responses"\nrequest_max_retries = 1\nstream_max_retries = 1\n'
    )
    argv = [
        str(programs() / "codex"),
        "exec",
        "--json",
        "--skip-git-repo-check",
        "-s",
        "danger-full-access",
        "Do the work",
    ]
    return argv, {"CODEX_HOME": str(home / ".codex"), "OPENAI_API_KEY": PLACEHOLDER}


def gemini(url: str, home: Path) -> tuple[Sequence[str], dict[str, str]]:
    (home / ".gemini").mkdir()
    chosen = {
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False, "maxAttempts": 2},
    }  # fmt: skip
    (home / ".gemini" / "settings.json").write_text(json.dumps(chosen))
    argv = [
        str(programs() / "gemini"), "-p", "Do the work", "-m", "gemini-2.5-flash", "--output-format", "stream-json",
        "--approval-mode", "yolo", "--skip-trust",
    ]  # fmt: skip
    return argv, {"GEMINI_API_KEY": PLACEHOLDER, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_NO_RELAUNCH": "true"}


AGENTS: dict[str, tuple[Start, str, str]] = {
    "claude": (claude, "x-api-key", REAL),
    "codex": (codex, "authorization", f"Bearer {REAL}"),
    "gemini": (gemini, "x-goog-api-key", REAL),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_real_agent_works_with_a_placeholder(agent: str, tmp_path: Path) -> None:
    start, header, value = AGENTS[agent]
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    kept, denied = Kept(), list[str]()
    turns = [
        Turn(
            text="I look around.",
            sh=f"env > {work}/env.txt; echo seen",
            usage=Usage(input=1000, output=50, cache_read=300),
        ),
        Turn(text="All done.", usage=Usage(input=20, output=6)),
    ]

    def make(listener: socket.socket) -> ProviderProxy:
        key = Key(real=SecretValue(REAL), placeholder=PLACEHOLDER, needed=True)
        made = ProviderProxy(listener, Upstream(model.url), key, kept)
        made.paths, made.denied = api_paths(agent, ADDRESSES[agent], ()), lambda asked, _: denied.append(asked)
        return made

    with ScriptedModel(turns) as model, serving(make) as served:
        argv, env = start(served.url, home)
        path = f"{programs()}:{os.environ['PATH']}"
        whole = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "CI": "1", "NO_COLOR": "1", **env}
        done = subprocess.run(
            argv, cwd=work, env=whole, stdin=subprocess.DEVNULL, capture_output=True, timeout=200, start_new_session=True,
            check=False,
        )  # fmt: skip
        requests = model.requests
    assert done.returncode == 0, done.stderr.decode()
    inside = (work / "env.txt").read_text()
    assert REAL not in inside
    assert PLACEHOLDER in inside or agent != "claude"  # some keep even that from their shell
    assert REAL.encode() not in done.stdout + done.stderr
    asked = [request for request in requests if request.method == "POST"]
    assert len(asked) >= 2
    for request in asked:
        assert request.headers[header] == value
        assert PLACEHOLDER not in str(request.headers)
    for file in home.rglob("*"):
        with contextlib.suppress(OSError):
            assert not file.is_file() or REAL.encode() not in file.read_bytes()
    assert denied == []
    assert set(kept.ended) == {(True, True)}
    spent = kept.sum
    assert spent.cache_read == 300
    assert spent.input >= 1020
    assert spent.output >= 56
