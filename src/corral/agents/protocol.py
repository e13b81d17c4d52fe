"""What an agent's file must offer. Neither starts a process nor opens a file."""

from __future__ import annotations

from typing import Protocol

from corral.events import Event
from corral.model import AgentFacts, AgentTask, Command


class Conversation(Protocol):
    """Reads one attempt's output; one instance per attempt, so it may keep sums."""

    def read(self, line: str) -> list[Event]:
        """Turn a line into events; never raises: an unknown line is `Unparsed`."""
        ...

    def exited(self, code: int, stderr: str) -> list[Event]:
        """Have the last word: called once, after the last line."""
        ...


class Agent(Protocol):
    """Knows one program."""

    @property
    def facts(self) -> AgentFacts: ...

    def start(self, task: AgentTask) -> Command:
        """Say what to start; argv[0] is a program name or path."""
        ...

    def converse(self) -> Conversation: ...
