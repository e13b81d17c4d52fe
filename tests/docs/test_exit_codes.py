"""The tables of agents' exit codes say what their files do."""

import re
from pathlib import Path

import pytest

from corral import agents
from corral.model.agent_api import AgentProfile, AgentTask, End
from corral.model.events import Ended

PAGE = (Path(__file__).parents[2] / "docs/reference/exit-codes.md").read_text()
SILENT = re.findall(r"^\| ([\w:]+) \| ([\d, ]+) \| (\w+) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)
STATUSES = re.findall(r"^\| (gemini) \| (\d+) \| (\w+) \|$", PAGE, re.MULTILINE)
TASK = AgentTask(prompt="x", workspace="/w", home="/h")
WORDS = ("", "Error: 401 unauthorized", "Error: 429 too many requests")
CASES = [
    (name, int(code), words, kind)
    for name, codes, *kinds in SILENT
    for code in codes.split(",")
    for words, kind in zip(WORDS, kinds, strict=True)
]


def test_the_tables_are_there() -> None:
    assert {name for name, *_ in SILENT} >= {"claude", "codex", "gemini", "opencode", "acp:gemini"}
    assert len(STATUSES) >= 5


@pytest.mark.parametrize(("name", "code", "words", "kind"), CASES)
def test_an_agent_that_ends_without_a_result(name: str, code: int, words: str, kind: str) -> None:
    talk = agents.find(name, {name: AgentProfile()}).converse(TASK)
    (ended,) = [event for event in talk.exited(End(code, words)) if isinstance(event, Ended)]
    assert not ended.ok
    assert ended.error
    assert ended.error.kind == kind, ended


@pytest.mark.parametrize(("name", "code", "kind"), STATUSES)
def test_an_agent_whose_code_is_the_status_of_its_provider(name: str, code: str, kind: str) -> None:
    talk = agents.find(name, {name: AgentProfile()}).converse(TASK)
    talk.read('{"type": "result", "status": "error", "error": {"type": "x", "message": "no"}, "stats": {}}')
    (ended,) = [event for event in talk.exited(End(int(code))) if isinstance(event, Ended)]
    assert ended.error
    assert ended.error.kind == kind, ended
