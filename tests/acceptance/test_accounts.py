"""Several accounts of one agent: each its own key or login, and, where settings say so, one after the other."""

import json
import sqlite3

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.command import Corral
from tests.rig.suites import claude_program
from tests.rig.waiting import until

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
account = "work"
rotate = {rotate}
"""
LIMITED = Turn(status=429, message="This request would exceed your account's rate limit", retry_after_seconds=7200)
WRITES = [Turn(sh="echo a > a.txt"), Turn(text="Done.")]


@pytest.fixture(autouse=True)
def keys(corral: Corral) -> None:
    corral.env |= {"WORK_KEY": "sk-work-1234567890", "HOME_KEY": "sk-home-1234567890"}
    corral.env.pop("ANTHROPIC_API_KEY", None)


def keys_of(model: ScriptedModel) -> set[str]:
    return {request.headers.get("x-api-key", "") for request in model.requests if request.method == "POST"}


@pytest.mark.slow
def test_the_next_account_is_used_only_where_settings_say_so(corral: Corral) -> None:
    repo = corral.repo()
    with ScriptedModel([LIMITED]) as work, ScriptedModel(WRITES) as home:
        text = ACCOUNTS.format(work=work.url, home=home.url, program=claude_program(), rotate="false")
        corral.config(text)
        parked = corral.run(repo, "t", "--agent", "claude")
        assert parked.code == 5, parked
        assert parked.attempt["account"] == "work"
        assert keys_of(work) == {"sk-work-1234567890"}
        assert not home.requests

        asked = corral.run(repo, "t", "--agent", "claude@home")
        assert asked.code == 0, asked
        assert (asked.attempt["agent"], asked.attempt["account"]) == ("claude", "home")
        assert keys_of(home) == {"sk-home-1234567890"}

        corral.config_file.write_text(text.replace("rotate = false", "rotate = true"))
        asked_of_work = len(work.requests)
        turned = corral.run(repo, "t", "--agent", "claude")
        assert turned.code == 0, turned
        assert turned.attempt["account"] == "home"
        assert len(work.requests) == asked_of_work, "an account that is known to be limited was asked"
        assert any("`home` is used" in event.get("text", "") for event in corral.events())

        pinned = corral.run(repo, "t", "--agent", "claude@work")
        assert pinned.code == 5, pinned
    known = {found["account"]: found for found in corral("quota", "--json").json}
    assert known["work"]["limited"]
    assert known["work"]["until"]
    assert "claude@work" in corral("quota").out
    stored = (corral.home / "corral.db").read_bytes() + b"".join(
        path.read_bytes() for path in (corral.home / "logs").rglob("*") if path.is_file()
    )
    assert b"sk-work-1234567890" not in stored
    assert b"sk-home-1234567890" not in stored


@pytest.mark.slow
def test_a_run_goes_on_with_another_account_in_the_same_session(corral: Corral) -> None:
    repo = corral.repo()
    first = Turn(sh="echo a > a.txt")
    with (
        ScriptedModel([first, LIMITED]) as work,
        ScriptedModel([first, Turn(sh="echo b > b.txt"), Turn(text="Done.")]) as home,
    ):
        corral.config(ACCOUNTS.format(work=work.url, home=home.url, program=claude_program(), rotate="true"))
        outcome = corral.run(repo, "t", "--agent", "claude")
    assert outcome.code == 0, outcome
    limited, went_on = outcome.json["nodes"][0]["attempts"]
    assert (limited["status"], limited["account"], went_on["account"]) == ("limited", "work", "home")
    assert "continuing on `home`" in limited["error"]["message"]
    assert limited["session"] == went_on["session"]
    assert {*went_on["files_changed"]} == {"a.txt", "b.txt"}
    rows = {row["key"]: row["attempts"] for row in corral("cost", "--by", "account", "--json").json["rows"]}
    assert rows == {"claude@work": 1, "claude@home": 1}


def test_what_an_account_lacks_is_said_before_anything_starts(corral: Corral) -> None:
    repo = corral.repo()
    login = corral.root / "work"
    corral.config(
        f'[accounts.work]\nagent = "codex"\nfolder = "{login}"\n[accounts.key]\nagent = "codex"\nkey_env = "NO"'
    )
    refused = corral.run(repo, "t", "--agent", "codex@work")
    assert refused.code == 2
    assert "is not logged in" in refused.err
    assert "auth.json" in refused.err
    missing = corral.run(repo, "t", "--agent", "codex@key")
    assert (missing.code, "NO is not set" in missing.err) == (2, True)
    unknown = corral.run(repo, "t", "--agent", "codex@other")
    assert (unknown.code, "it has: work, key" in unknown.err) == (2, True)
    theirs = corral.repo("theirs", {"corral.toml": '[accounts.x]\nagent = "codex"\nkey_env = "X"\n'})
    assert "is yours to say" in corral.run(theirs, "t", "--agent", "codex").err


def test_each_account_has_its_own_login(corral: Corral) -> None:
    """An agent finds the login of its account, in its own place, and no other."""
    repo = corral.repo()
    for name in ("work", "home"):
        folder = corral.root / name
        folder.mkdir()
        (folder / "auth.json").write_text(json.dumps({"who": name}))
    program = corral.root / "codex"
    program.write_text(
        '#!/bin/sh\ncp "$HOME/.codex/auth.json" seen.json\nexec 0</dev/null\n'
        'echo \'{"type":"thread.started","thread_id":"t"}\'\n'
        'echo \'{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"ok"}}\'\n'
        'echo \'{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\'\n'
    )
    program.chmod(0o755)
    for name in ("work", "home"):
        corral.config(f'[accounts.{name}]\nagent = "codex"\nfolder = "{corral.root / name}"')
    corral.config(f'[agents.codex]\nprogram = "{program}"')
    for name in ("work", "home"):
        outcome = corral.run(repo, "t", "--agent", f"codex@{name}")
        assert outcome.code == 0, outcome
        assert json.loads(repo.read(outcome.attempt["branch"], "seen.json")) == {"who": name}
    with sqlite3.connect(corral.home / "corral.db") as store:
        assert store.execute("SELECT count(*) FROM ledger WHERE account IN ('work', 'home')").fetchone() == (2,)


def test_requests_a_minute_are_counted_for_all_runs_together(corral: Corral) -> None:
    """Who comes too soon waits, and says so: its model is not asked before there is room."""
    repo = corral.repo()
    with ScriptedModel([Turn(text="I write.", sh="echo b > b.txt"), Turn(text="Done.")]) as model:
        settings = f'settings = {{ OLLAMA_HOST = "{model.url}", AGENT_RETRIES = "0" }}'
        corral.config(f"[agents.ollama]\nrequests_per_minute = 2\n{settings}")
        first = corral.run(repo, "t", "--agent", "ollama:m")
        assert first.code == 0, first
        asked = len([request for request in model.requests if request.method == "POST"])
        assert asked == 2
        with corral.going("run", "t", "--repo", repo.folder, "--agent", "ollama:m", "--json") as second:
            told = "ollama may be asked 2 times a minute"
            until(lambda: any(told in event.get("text", "") for event in corral.events()), "it says that it waits")
            assert corral("stop", "@last").code == 0
            assert second.end().code == 130
        assert len([request for request in model.requests if request.method == "POST"]) == asked
