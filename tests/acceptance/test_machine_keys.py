"""Keys stay here: requests of an agent elsewhere are relayed, metered here, and no secret is at the far end."""

from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.machines import add_machine, far_home
from tests.rig.suites import claude_program as program

REAL = "sk-real-0123456789abcdef"
LOOK = """{ env; ps axeww; cat /proc/*/environ /proc/*/cmdline; find ~ /tmp -xdev -type f -size -1000k -exec cat {} +; \
} 2>/dev/null | tr '\\0' '\\n' > seen.txt"""
TURNS = [
    Turn(text="I look.", sh=LOOK, usage=Usage(input=100, output=20)),
    Turn(text="Done.", usage=Usage(input=150, output=10)),
]


@pytest.fixture
def model() -> Generator[ScriptedModel]:
    with ScriptedModel(TURNS) as served:
        yield served


def contents(folder: Path) -> Generator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()


def test_the_real_claude_works_there_and_its_key_is_here(corral: Corral, model: ScriptedModel) -> None:
    add_machine(corral)
    corral.config(f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n')
    corral.env["ANTHROPIC_API_KEY"] = REAL
    repo = corral.repo()
    outcome = corral.run(repo, "look", "--agent", "claude", "--machine", "box1")
    assert outcome.code == 0, outcome
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "PATH=" in seen  # it looked
    assert REAL not in seen
    assert all(REAL in str(request.headers) for request in model.requests if request.body)
    assert "sk-corral-" not in str([request.headers for request in model.requests])
    assert outcome.attempt["machine"] == "box1"
    assert outcome.attempt["tokens"]["input"] == 250
    assert not any(REAL.encode() in each for each in contents(far_home(corral)))


def test_the_environment_of_the_host_holds_no_key(corral: Corral) -> None:
    seen = corral.root / "host-environment"
    add_machine(corral, command=f'["sh", "-c", "env > {seen}; exit 1"]')
    corral.env |= {"ANTHROPIC_API_KEY": REAL, "SOME_TOKEN": REAL, "OPENAI_API_KEY": REAL}
    assert corral("machines", "check", "box1").code == 1
    text = seen.read_text()
    assert "PATH=" in text
    assert REAL not in text


def test_an_agent_whose_key_cannot_be_relayed_is_refused(corral: Corral) -> None:
    add_machine(corral)
    corral.agent("talker", "echo $TALKER_KEY > key.txt", 'env = ["TALKER_KEY"]\n')
    corral.env["TALKER_KEY"] = REAL
    repo = corral.repo()
    outcome = corral.run(repo, "x", "--agent", "talker", "--machine", "box1", "--retries", "0")
    assert outcome.json["status"] == "failed", outcome
    assert "the key in TALKER_KEY would have to be on `box1`" in outcome.attempt["error"]["message"]
    assert 'keys = "send" allows it' in outcome.attempt["error"]["hint"]
    corral.config_file.write_text(
        corral.config_file.read_text().replace("[machines.box1]", '[machines.box1]\nkeys = "send"')
    )
    assert corral.run(repo, "x", "--agent", "talker", "--machine", "box1").json["status"] == "done"
