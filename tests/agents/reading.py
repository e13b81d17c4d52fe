"""What an agent's file makes of lines: those recorded from real runs, and made-up ones."""

import json
from pathlib import Path
from typing import Any

from corral import agents
from corral.model.agent_api import AgentProfile, AgentTask, Command, End, HangUp, Leave, Line
from corral.model.events import Ended, Event

TASK = AgentTask(prompt="do it", workspace="/w", home="/home/agent")
RECORDED = Path(__file__).parent / "recorded"  # lines alone
RECORDINGS = Path(__file__).parent / "recordings"  # whole, as `corral export --recording` writes them


def recorded(name: str) -> list[str]:
    """Return the lines that the real program printed for a task of three turns."""
    return next(RECORDED.glob(f"{name}.*")).read_text().splitlines()


def recording(name: str) -> list[str]:
    """Return the lines of a whole recording."""
    entries = [json.loads(line) for line in (RECORDINGS / f"{name}.recording").read_text().splitlines()]
    return [entry["text"] for entry in entries if entry["kind"] == "line"]


def told(
    name: str, lines: list[str], code: int = 0, stderr: str = "", settings: dict[str, str] | None = None
) -> list[Event]:
    """Return all events of an attempt that printed these lines and ended so."""
    conversation = agents.find(name, {name: AgentProfile(settings=settings or {})}).converse(TASK)
    heard = [each for line in lines for each in conversation.read(line)]
    events: list[Event] = [each for each in heard if not isinstance(each, Line | HangUp | Leave)]
    return [*events, *conversation.exited(End(code, stderr))]


def ended(name: str, *lines: dict[str, Any], code: int = 0, stderr: str = "") -> Ended:
    """Return the last word of an attempt; it is said once."""
    found = [
        event for event in told(name, [json.dumps(line) for line in lines], code, stderr) if isinstance(event, Ended)
    ]
    assert len(found) == 1
    return found[0]


def kind(end: Ended) -> str:
    """Return the class of a failure."""
    assert not end.ok
    assert end.error is not None
    return end.error.kind


def start(name: str, settings: dict[str, str] | None = None, **task: Any) -> Command:
    """Return how an agent is started for a task."""
    given: dict[str, Any] = {"prompt": "do it", "workspace": "/w", "home": "/home/agent", **task}
    return agents.find(name, {name: AgentProfile(settings=settings or {})}).start(AgentTask(**given))
