"""ACP agents that cannot be installed here, and those that behave badly: small programs in the box, by the contract."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.tagged import tagged_processes

AGENT = Path(__file__).parents[1] / "rig" / "acp_agent.py"


def give(corral: Corral, program: str, behaviour: str) -> None:
    """Put a program of that name on the person's PATH."""
    folder = corral.root / "programs"
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(f"#!/usr/bin/python3\n{AGENT.read_text()}".replace("sys.argv[1]", f'"{behaviour}"'))
    (folder / program).chmod(0o755)
    corral.env["PATH"] = f"{folder}:{corral.env['PATH']}"


def own(corral: Corral, behaviour: str) -> str:
    path = corral.root / "agent.py"
    path.write_text(AGENT.read_text())
    corral.config(f'[agents.own]\ncommand = ["/usr/bin/python3", "{path}", "{behaviour}"]\noutput = "acp"')
    return "own"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.mark.parametrize(
    ("agent", "program", "behaviour"), [("acp:goose", "goose", "works"), ("acp:cursor", "cursor-agent", "cursor")]
)
def test_a_preset_by_its_contract(corral: Corral, repo: Repo, agent: str, program: str, behaviour: str) -> None:
    give(corral, program, behaviour)
    corral.env["CURSOR_API_KEY"] = "key"
    outcome = corral.run(repo, "write b", "--agent", agent)
    assert outcome.code == 0, outcome
    assert outcome.attempt["agent"] == agent
    assert repo.read(outcome.attempt["branch"], "b.txt") == "b"
    events = corral.events()
    assert {"type": "asked", "answer": "Allow"}.items() <= next(e for e in events if e["type"] == "asked").items()
    assert any(event["type"] == "planned" and event["steps"][0]["text"] == "write b.txt" for event in events)
    assert any(event["type"] == "unparsed" and "no JSON" in event["line"] for event in events)
    logged = corral("logs", "@last").out
    assert "plans:" in logged
    assert "> write b.txt" in logged
    assert "asks: may it use execute: echo b > b.txt -> Allow" in logged
    assert agent in [row["name"] for row in corral("agents", "--json").json]


def test_without_its_key_it_is_not_let_in(corral: Corral, repo: Repo) -> None:
    give(corral, "cursor-agent", "cursor")
    outcome = corral.run(repo, "write b", "--agent", "acp:cursor", "--retries", "0")
    assert outcome.code == 1, outcome
    error = outcome.attempt["error"]
    assert error["class"] == "auth"
    assert "CURSOR_API_KEY" in error["hint"]


def test_any_command_that_speaks_acp(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "write b", "--agent", own(corral, "works"))
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["b.txt"]


def test_read_only_it_may_not(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "look", "--agent", own(corral, "works"), "--read-only")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "I may not."
    assert not outcome.attempt["files_changed"]


def test_one_that_never_answers_ends_by_its_idle_limit(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "write b", "--agent", own(corral, "silent"), "--idle", "2s", "--retries", "0")
    assert outcome.code == 1, outcome
    assert outcome.attempt["status"] == "timed_out"
    assert outcome.attempt["error"]["message"] == "it said nothing for 2 s"
    assert not tagged_processes(f"CORRAL_ATTEMPT={outcome.json['run']}")


@pytest.mark.slow
def test_one_that_asks_and_never_listens_is_ended(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "write b", "--agent", own(corral, "floods"), "--retries", "0")
    assert outcome.code == 1, outcome
    assert outcome.attempt["error"]["class"] == "flood"
    assert any("never listened" in event.get("text", "") for event in corral.events())
    assert corral("restore", outcome.attempt["id"], "--into", corral.root / "back").code == 0
    assert (corral.root / "back" / "w.txt").read_text() == "precious\n"  # as it was right before it was ended
    assert not tagged_processes(f"CORRAL_ATTEMPT={outcome.json['run']}")


@pytest.mark.parametrize(("agent", "words"), [("acp", "no agent is called `acp`"), ("acp:nobody", "`acp:nobody`")])
def test_an_unknown_one_is_a_bad_request(corral: Corral, repo: Repo, agent: str, words: str) -> None:
    outcome = corral.run(repo, "t", "--agent", agent)
    assert outcome.code == 2
    assert words in outcome.err
    assert "goose" in outcome.err


def test_one_that_is_not_installed_says_how_to_get_it(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "t", "--agent", "acp:goose")
    assert outcome.code == 2
    assert '[agents."acp:goose"] program' in outcome.err
    assert not [row for row in corral("agents", "--json").json if row["name"] == "acp:goose"]


@pytest.mark.parametrize("method", ["cursor_login", None])
def test_settings_name_how_a_command_logs_in(corral: Corral, repo: Repo, method: str | None) -> None:
    agent = own(corral, "cursor")
    corral.env["CURSOR_API_KEY"] = "key"
    corral.config('env = ["CURSOR_API_KEY"]' + (f'\nauthenticate = "{method}"' if method else ""))
    outcome = corral.run(repo, "write b", "--agent", agent, "--retries", "0")
    if method:
        assert outcome.code == 0, outcome
        assert repo.read(outcome.attempt["branch"], "b.txt") == "b"
    else:
        assert outcome.attempt["error"]["class"] == "auth", outcome
        assert "authenticate" in outcome.attempt["error"]["hint"]
