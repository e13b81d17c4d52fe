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
    """An agent that takes orders while it works."""

    def tell(self, order: Telling) -> Sequence[Line | HangUp | Leave]:
        """Put an order into the agent's protocol; nothing, if that waits until its turn ends."""
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


@runtime_checkable
class Interactive(Agent, Protocol):
    """Knows a program that a user can also work with, on a terminal."""

    def interact(self, task: AgentTask) -> Command | None:
        """Say what to start on a terminal, in the session of the task if it names one; None: there is no such form."""
        ...
