"""Reading an agent's lines: typed events out of a recorded claude stream, against json.loads of the same lines."""

from __future__ import annotations

import json
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.agents.claude import ClaudeConversation

RECORDING = Path(__file__).parents[1] / "tests" / "agents" / "recordings" / "claude.recording"
TIMES = 1000


def measure() -> list[Promise]:
    entries = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    lines: list[str] = [entry["text"] for entry in entries if entry["kind"] == "line"] * TIMES
    plain, typed = interleaved(9, lambda: _plain(lines), lambda: _typed(lines))
    return [Promise("a recorded claude stream read into typed events", "json.loads of its lines", typed / plain, 0.45)]


def _plain(lines: list[str]) -> None:
    for line in lines:
        json.loads(line)


def _typed(lines: list[str]) -> None:
    conversation = ClaudeConversation()
    for line in lines:
        conversation.read(line)
