"""What an agent's file must offer. Neither starts a process nor opens a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from corral.model.agent_api import AgentFacts, AgentTask, Answer, Command, End, HangUp, Leave, Line, Telling
from corral.model.events import AgentEvent

#: What reading a line may lead to: events for the engine, and words and files for the agent.
Heard = AgentEvent | Line | HangUp | Leave


class Conversation(Protocol):
    """Reads one attempt's output; one instance per start of the program, so it may keep sums."""

    def read(self, line: str) -> Sequence[Heard]:
        """Turn a line into events and answers; never raises: an unknown line is `Unparsed`."""
        ...

    def exited(self, end: End) -> Sequence[AgentEvent]:
        """Have the last word: called once, after the last line."""
        ...


@runtime_checkable
class Listens(Conversation, Protocol):
    """An agent that can be told something while it works."""

    def tell(self, order: Telling) -> Sequence[Line | HangUp | Leave]:
        """Put what a person wants into the agent's language; nothing, if that waits until its turn ends."""
        ...


@runtime_checkable
class Answers(Conversation, Protocol):
    """An agent that waits for answers to its questions."""

    def answer(self, order: Answer) -> Sequence[Line]:
        """Put an answer into the agent's language; nothing, if it does not wait for it any more."""
        ...


class Agent(Protocol):
    """Knows one program."""

    @property
    def facts(self) -> AgentFacts: ...

    def start(self, task: AgentTask) -> Command:
        """Say what to start; argv[0] is a program name or path."""
        ...

    def converse(self, task: AgentTask, /) -> Conversation: ...
