"""The key of a provider is put in outside: the agent, its shell and its files hold only a word that stands for it."""

from collections.abc import Generator

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.agents import give
from tests.rig.command import Corral, Outcome
from tests.rig.person import Person
from tests.rig.proxies import Upstream, answering
from tests.rig.repository import Repo
from tests.rig.suites import claude_program as program

REAL = "sk-real-0123456789abcdef"
LOOK = """
{ env; cat /proc/*/environ /proc/*/cmdline; find / -xdev -type f -size -1000k \\( -path "$HOME/*" -o -path '/tmp/*' \\
  -o -path '/run/*' \\) -exec cat {} +; } 2>/dev/null | tr '\\0' '\\n' > seen.txt
"""
TURNS = [
    Turn(text="I look.", sh=LOOK, usage=Usage(input=100, output=20)),
    Turn(text="Done.", usage=Usage(input=150, output=10)),
]


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def model() -> Generator[ScriptedModel]:
    with ScriptedModel(TURNS) as served:
        yield served


def claude(corral: Corral, url: str, key: str = "ANTHROPIC_API_KEY") -> None:
    corral.config(f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{url}" }}\n')
    corral.env[key] = REAL


def outside(repo: Repo, outcome: Outcome, model: ScriptedModel) -> str:
    """Assert that the provider got the key and the agent did not; return what the agent's shell saw."""
    assert outcome.code == 0, outcome
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "PATH=" in seen  # it looked
    assert REAL not in seen
    assert model.requests
    assert all(REAL in str(request.headers) for request in model.requests if request.body)
    assert "sk-corral-" not in str([request.headers for request in model.requests])
    return seen


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
@pytest.mark.parametrize("net", [None, "on"])
def test_the_real_claude(corral: Corral, repo: Repo, model: ScriptedModel, key: str, net: str | None) -> None:
    claude(corral, model.url, key)
    words = ["--net", net] if net else []
    outcome = corral.run(repo, "look", "--agent", "claude", *words)
    seen = outside(repo, outcome, model)
    assert "sk-corral-" in seen  # what stands for it
    assert outcome.attempt["tokens"]["input"] == 250
    assert REAL not in corral("export").out


def test_a_key_that_stands_in_the_settings(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    settings = f'ANTHROPIC_BASE_URL = "{model.url}", ANTHROPIC_API_KEY = "{REAL}"'
    corral.config(f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ {settings} }}\n')
    outside(repo, corral.run(repo, "look", "--agent", "claude"), model)


@pytest.mark.slow
@pytest.mark.parametrize("net", [None, "on"])
def test_the_real_codex(corral: Corral, repo: Repo, model: ScriptedModel, net: str | None) -> None:
    give(corral, "codex", "OPENAI_API_KEY", {"OPENAI_BASE_URL": model.url + "/v1"})
    corral.env["OPENAI_API_KEY"] = REAL
    outcome = corral.run(repo, "look", "--agent", "codex:gpt-5", *(["--net", net] if net else []))
    outside(repo, outcome, model)
    assert outcome.attempt["sandbox"].get("violations", []) == []  # hosts that it does not need are no violations


@pytest.mark.slow
def test_an_agent_that_counts_nothing_is_counted(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    give(corral, "copilot", "COPILOT_PROVIDER_API_KEY", {"OPENAI_BASE_URL": model.url + "/v1"})
    corral.env["COPILOT_PROVIDER_API_KEY"] = REAL
    outcome = corral.run(repo, "look", "--agent", "copilot:fake-model")
    outside(repo, outcome, model)
    assert (outcome.attempt["tokens"]["input"], outcome.attempt["tokens"]["output"]) == (250, 30)


@pytest.mark.slow
def test_an_agent_that_cannot_be_moved_keeps_its_key_and_says_so(corral: Corral, repo: Repo) -> None:
    give(corral, "opencode", "OPENAI_API_KEY", {"AGENT_RETRIES": "0"})
    corral.run(repo, "look", "--agent", "opencode:openai/gpt-5", "--retries", "0", "--timeout", "20s")
    notes = [event["text"] for event in corral.events() if event["type"] == "noted"]
    assert any("OPENAI_API_KEY is in its box" in note for note in notes), notes


def test_off_leaves_it_its_provider(corral: Corral, repo: Repo, model: ScriptedModel) -> None:
    claude(corral, model.url)
    outside(repo, corral.run(repo, "look", "--agent", "claude", "--net", "off"), model)


def test_a_repository_cannot_send_the_key_elsewhere(corral: Corral, model: ScriptedModel) -> None:
    claude(corral, model.url)
    with ScriptedModel(TURNS) as evil:
        theirs = f'[agents.claude]\nsettings = {{ ANTHROPIC_BASE_URL = "{evil.url}" }}\n'
        repo = corral.repo(files={"corral.toml": theirs, "a.txt": "one\n"})
        outcome = corral.run(repo, "look", "--agent", "claude")
        assert outcome.code == 2
        assert "trust" in outcome.err
        assert evil.requests == []
    assert corral("ls", "--json").json == []


def test_the_word_is_no_key_for_anybody_else(corral: Corral, repo: Repo) -> None:
    """Another process of this machine finds the port of a run with an open network: without the word it gets nothing."""
    looking = [
        Turn(text="I ask.", sh="curl -s -m 5 $ANTHROPIC_BASE_URL/v1/models > seen.txt; env >> seen.txt"),
        Turn(text="Done."),
    ]
    with ScriptedModel(looking) as served:
        claude(corral, served.url)
        outcome = corral.run(repo, "look", "--agent", "claude", "--net", "on")
        outside(repo, outcome, served)
        listed = [request for request in served.requests if request.path.endswith("/v1/models")]
        assert len(listed) == 1, "the trial of the key alone"


def test_what_an_agent_says_of_its_key_is_not_stored(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(text=f"The key is {REAL}.", sh="echo x > x"), Turn(text=f"It is {REAL}.")]) as model:
        claude(corral, model.url)
        outcome = corral.run(repo, "look", "--agent", "claude")
    assert outcome.code == 0, outcome
    assert REAL not in outcome.out
    assert REAL not in corral("logs", "@last").out + corral("export").out


LIKE_CLAUDE = """#!/bin/sh
env > seen.txt
curl -s -o reply -H "x-api-key: $ANTHROPIC_API_KEY" -d '{}' "$ANTHROPIC_BASE_URL/v1/messages"
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'
"""


@pytest.mark.slow
def test_the_key_of_an_ordinary_user(person: Person) -> None:
    seen: list[bytes] = []
    place = person.root / "claude"  # they may not read the real one of whoever runs the tests
    place.write_text(LIKE_CLAUDE)
    place.chmod(0o755)
    repo = person.repo()
    with Upstream(answering(b"{}", seen=seen)) as served:
        person.config(f'[agents.claude]\nprogram = "{place}"\nsettings = {{ ANTHROPIC_BASE_URL = "{served.url}" }}\n')
        person.env["ANTHROPIC_API_KEY"] = REAL
        outcome = person.run(repo, "look", "--agent", "claude")
    assert outcome.code == 0, outcome
    found = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "ANTHROPIC_API_KEY=sk-corral-" in found
    assert REAL not in found
    assert [(request.split(b" ")[0], REAL.encode() in request) for request in seen] == [(b"GET", True), (b"POST", True)]


def test_a_key_that_its_provider_refuses_starts_nothing(corral: Corral, repo: Repo) -> None:
    """It is tried before a run is made; `doctor` says the same, and a setting leaves it to the agent."""
    seen: list[bytes] = []
    refusing = answering(b"invalid x-api-key", seen=seen, head="401 Unauthorized")
    with Upstream(refusing) as provider:
        address = f"http://127.0.0.1:{provider.port}"
        claude(corral, address)
        outcome = corral("run", "look", "--agent", "claude", "--repo", repo.folder)
        assert outcome.code == 2, outcome
        words = f"{address} refuses the key of the agent `claude` in ANTHROPIC_API_KEY (401)"
        assert outcome.err.splitlines()[0] == f"error: {words}"
        assert corral("ls", "--json").json == []
        assert all(request.startswith(b"GET /v1/models?limit=1 ") for request in seen)
        report = corral("doctor", "--json").json
        assert (report["ready"], report["why"], report["next"]) == (False, words, "export ANTHROPIC_API_KEY=...")
        corral.config("try_key = false")
        outcome = corral.run(repo, "look", "--agent", "claude", "--retries", "0")
    assert outcome.attempt["error"]["class"] == "auth", outcome
