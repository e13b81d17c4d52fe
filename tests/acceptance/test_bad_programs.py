"""Programs that are missing, too old, not logged in, that update themselves, wait for a person, or flood."""

import pytest

from corral import agents
from corral.model.agent_api import AgentTask
from tests.rig.command import Corral

UPDATES_OFF = {
    "claude": "DISABLE_AUTOUPDATER",
    "codex": "check_for_update_on_startup = false",
    "gemini": '"enableAutoUpdate":false',
    "opencode": "OPENCODE_DISABLE_AUTOUPDATE",
    "qwen": '"disableAutoUpdate":true',
    "copilot": "--no-auto-update",
    "aider": "--no-check-update",
}


def program(corral: Corral, name: str, script: str) -> None:
    """Put a program of that name on the person's PATH."""
    folder = corral.root / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    corral.env["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"


def about(corral: Corral, agent: str) -> dict[str, str]:
    return next(each for each in corral("agents", "--json").json if each["name"] == agent)


@pytest.mark.parametrize("agent", UPDATES_OFF)
def test_no_agent_updates_itself(agent: str) -> None:
    task = AgentTask(prompt="x", workspace="/w", home="/h", model="m")
    command = agents.find(agent, {}).start(task)
    told = [*command.argv, *command.env, *(content.decode() for content in command.files.values())]
    assert any(UPDATES_OFF[agent] in each for each in told)


def test_a_missing_program_is_named_with_the_command_that_installs_it(corral: Corral) -> None:
    outcome = corral.run(corral.repo(), "do it", "--agent", "gemini")
    assert outcome.code == 2
    assert "there is no program `gemini`" in outcome.err
    assert "hint: npm install -g @google/gemini-cli" in outcome.err


@pytest.mark.parametrize(
    ("agent", "told", "version", "old"),
    [
        ("claude", "1.0.17 (Claude Code)", "1.0.17", True),
        ("claude", "2.1.325 (Claude Code)", "2.1.325", False),
        ("codex", "codex-cli 0.9.0", "0.9.0", True),
        ("codex", "codex-cli 0.1000.0-alpha.3", "0.1000.0-alpha.3", False),
        ("copilot", "GitHub Copilot CLI 1.0.102.", "1.0.102", False),
        ("qwen", "0.15.10", "0.15.10", True),
        ("qwen", "no number at all", "no", False),
    ],
)
def test_an_old_version_is_said_with_its_remedy(corral: Corral, agent: str, told: str, version: str, old: bool) -> None:
    program(corral, agent, f"echo '{told}'")
    found = about(corral, agent)
    assert found["version"] == version
    assert ("@latest" in found["remedy"]) == old
    shown = corral("doctor", env={"COLUMNS": "300"})
    assert ("Node before 22" in shown.out) == old


def test_a_program_that_cannot_even_say_its_version(corral: Corral) -> None:
    program(corral, "gemini", "echo 'SyntaxError: Unexpected token' >&2; exit 1")  # as on a Node that is too old
    found = about(corral, "gemini")
    assert found["version"] is None
    assert found["program"].endswith("/bin/gemini")


def test_not_logged_in(corral: Corral) -> None:
    program(corral, "claude", "echo 2.1.325")
    assert about(corral, "claude")["login"] == "not seen"
    credentials = corral.user_home / ".claude" / ".credentials.json"
    credentials.parent.mkdir()
    credentials.write_text("{}")
    assert about(corral, "claude")["login"] == "logged in"
    corral.env["ANTHROPIC_API_KEY"] = "sk-something"
    assert about(corral, "claude")["login"] == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "copilot"])
def test_one_that_asks_for_trust_and_waits_is_ended_for_its_silence(corral: Corral, agent: str) -> None:
    program(corral, agent, 'echo "Do you trust the files in this folder? [y/N]"; exec sleep 600')
    outcome = corral.run(corral.repo(), "do it", "--agent", f"{agent}:m", "--idle", "1s", "--retries", "0")
    assert outcome.code == 1
    assert outcome.attempt["status"] == "timed_out"
    assert outcome.attempt["error"]["hint"]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "copilot"])
def test_help_printed_instead_of_work_is_no_success(corral: Corral, agent: str) -> None:
    program(corral, agent, 'echo "Usage: agent [options]"; touch made.txt; exit 0')  # as an old one does
    outcome = corral.run(corral.repo(), "do it", "--agent", f"{agent}:m", "--retries", "0")
    assert outcome.code == 1
    assert outcome.attempt["status"] == "failed"


def test_one_that_floods_is_heard_to_its_end(corral: Corral) -> None:
    result = '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'
    program(corral, "claude", f"touch made.txt; yes junk | head -n 200000; echo '{result}'")
    outcome = corral.run(corral.repo(), "do it", "--agent", "claude", "--retries", "0")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "Done."
    assert any(event["type"] == "noted" and "too much" in event["text"] for event in corral.events())
