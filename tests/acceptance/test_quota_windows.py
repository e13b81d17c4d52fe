"""How an account's windows stand, as real agents' providers tell it on the way: shown by `corral quota`, per account."""

import time
from datetime import datetime
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.agents import give
from tests.rig.command import Corral
from tests.rig.suites import claude_program

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]  # they drive real agents

ACCOUNTS = """
[accounts.work]
agent = "claude"
key_env = "WORK_KEY"
settings = {{ ANTHROPIC_BASE_URL = "{work}" }}

[accounts.home]
agent = "claude"
key_env = "HOME_KEY"
settings = {{ ANTHROPIC_BASE_URL = "{home}" }}

[agents.claude]
program = "{program}"
model = "claude-sonnet-4-5"
"""


def unified(share: float, resets: int) -> dict[str, str]:
    """What a subscription is told with each answer."""
    return {
        "anthropic-ratelimit-unified-status": "allowed",
        "anthropic-ratelimit-unified-5h-utilization": f"{share}",
        "anthropic-ratelimit-unified-5h-reset": f"{resets}",
        "anthropic-ratelimit-unified-7d-utilization": "0.05",
        "anthropic-ratelimit-unified-7d-reset": f"{resets + 86400}",
    }


def windows(corral: Corral, name: str) -> dict[str, Any]:
    """Return how the windows of an account stand: share used, and seconds since 1970 of the reset."""
    found = [each for each in corral("quota", "--json").json if (each["account"] or each["agent"]) == name]
    shown = found[0]["windows"] if found else []
    return {each["name"]: (each["used"], datetime.fromisoformat(each["resets"]).timestamp()) for each in shown}


def test_the_windows_of_each_account_of_claude(corral: Corral) -> None:
    repo, resets = corral.repo(), int(time.time()) + 7200
    corral.env |= {"WORK_KEY": "sk-work-1234567890", "HOME_KEY": "sk-home-1234567890"}
    corral.env.pop("ANTHROPIC_API_KEY", None)
    work_turns = [Turn(sh="echo a > a.txt", headers=unified(0.42, resets)), Turn(text="Done.")]
    full = Turn(status=429, message="usage limit", retry_after_seconds=7200, headers=unified(1.0, resets))
    home_turns = [Turn(sh="echo b > b.txt", headers=unified(0.9, resets)), full]
    with ScriptedModel(work_turns) as work, ScriptedModel(home_turns) as home:
        corral.config(ACCOUNTS.format(work=work.url, home=home.url, program=claude_program()))
        assert corral.run(repo, "t", "--agent", "claude@work").code == 0
        parked = corral.run(repo, "t", "--agent", "claude@home")
    assert parked.code == 5, parked
    assert windows(corral, "work") == {"5h": (0.42, resets), "7d": (0.05, resets + 86400)}
    assert windows(corral, "home")["5h"] == (1.0, resets)  # the answer that refused it is the newest word
    (limited,) = [each for each in corral("quota", "--json").json if each["limited"]]
    assert (limited["agent"], limited["account"]) == ("claude", "home")
    assert abs(datetime.fromisoformat(limited["until"]).timestamp() - resets) < 600
    shown = corral("quota").out
    assert "42 % used" in shown
    assert "claude@work" in shown


def test_what_claude_itself_tells_of_a_subscription(corral: Corral) -> None:
    """Without a box nobody stands between it and its provider: what it prints is all there is."""
    repo, resets = corral.repo(), int(time.time()) + 7200
    corral.env["TOKEN"] = "sk-ant-oat01-0123456789"
    corral.env.pop("ANTHROPIC_API_KEY", None)
    turns = [
        Turn(sh="echo a > a.txt", headers=unified(0.93, resets)),
        Turn(text="Done.", headers=unified(0.94, resets)),
    ]
    with ScriptedModel(turns) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\n[accounts.sub]\nagent = "claude"\nkey_env = "TOKEN"\n'
            f'key_as = "CLAUDE_CODE_OAUTH_TOKEN"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        open_level = ("--allow-unsandboxed", "--require-sandbox", "none")
        done = corral.run(repo, "t", "--agent", "claude@sub", *open_level)
    assert done.code == 0, done
    told = [event for event in corral.events() if event["type"] == "quota_reported"]
    assert {event["window"] for event in told} == {"5h", "7d"}
    used, back = windows(corral, "sub")["5h"]
    assert used in (0.93, 0.94)  # it tells again only what has changed much
    assert back == resets


def test_the_windows_of_codex(corral: Corral) -> None:
    repo, resets = corral.repo(), int(time.time()) + 3600
    headers = {
        "x-codex-primary-used-percent": "37.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": f"{resets}",
        "x-codex-secondary-used-percent": "12",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": f"{resets + 86400}",
    }
    with ScriptedModel([Turn(sh="echo c > c.txt", headers=headers), Turn(text="Done.", headers=headers)]) as model:
        give(corral, "codex", "OPENAI_API_KEY", {"OPENAI_BASE_URL": f"{model.url}/v1"})
        done = corral.run(repo, "t", "--agent", "codex:gpt-5")
    assert done.code == 0, done
    assert windows(corral, "codex") == {"5h": (0.375, resets), "7d": (0.12, resets + 86400)}
