"""Two real claude processes, each in its own box with a scripted model, talk to each other through their toolboxes."""

from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.stage import KEY
from tests.rig.command import Corral
from tests.rig.suites import claude_program
from tests.rig.talkers import flow, left

pytestmark = pytest.mark.slow


def calls(name: str, **given: Any) -> Turn:
    return Turn(text=f"I call {name}.", tool=f"mcp__corral__{name}", input=given)


SCRIPTS = {
    "asker": [
        calls("send_mail", to="answerer", text="which port does the server take?", priority="urgent"),
        calls("read_mail", wait_seconds=45),
        calls("ack_mail", ids=[2]),
        Turn(text="I write it down.", sh="echo asked > asked.txt"),
        Turn(text="Done."),
    ],
    "answerer": [
        calls("read_mail", wait_seconds=45),
        calls("send_mail", to="asker", text="it takes port 8081"),
        calls("ack_mail", ids=[1]),
        Turn(text="I write it down.", sh="echo answered > answered.txt"),
        Turn(text="Done."),
    ],
}


@pytest.fixture
def models(corral: Corral) -> Generator[dict[str, ScriptedModel]]:
    """One model for each of the two, so that each is told something else."""
    corral.env["ANTHROPIC_API_KEY"] = KEY
    with ExitStack() as stack:
        served = {name: stack.enter_context(ScriptedModel(turns)) for name, turns in SCRIPTS.items()}
        for name, model in served.items():
            settings = f'{{ ANTHROPIC_BASE_URL = "{model.url}" }}'
            corral.config(f'[agents.{name}]\nlike = "claude"\nprogram = "{claude_program()}"\nsettings = {settings}\n')
        yield served


def test_two_claudes_write_and_read(corral: Corral, models: dict[str, ScriptedModel]) -> None:
    repo = corral.repo()
    nodes: dict[str, dict[str, Any]] = {
        name: {"task": f"You are the {name}.", "agent": f"{name}:claude-sonnet-4-5", "retries": 0} for name in models
    }
    run = flow(corral, repo, nodes)
    assert left(repo, run, "asker", "asked.txt") == "asked"
    assert left(repo, run, "answerer", "answered.txt") == "answered"
    asked, answered = (str([each.body for each in models[name].requests]) for name in ("asker", "answerer"))
    assert "which port does the server take?" in answered
    assert '\\"from\\":\\"asker\\"' in answered or '"from":"asker"' in answered
    assert "it takes port 8081" in asked
    assert "'acknowledged': 1" in asked or 'acknowledged\\":1' in asked or '"acknowledged":1' in asked
    letters = [event for event in corral.events(run["run"]) if event["type"] == "mailed"]
    assert [(each["node"], each["to"]) for each in letters] == [("asker", "answerer"), ("answerer", "asker")]
