"""A command of a flow: the task itself is what the shell runs; it costs nothing."""

from __future__ import annotations

from msgspec import structs

from corral.agents.formats.command_output import TextOutput
from corral.agents.protocol import Conversation
from corral.model import Tokens
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End
from corral.model.events import AgentEvent, Ended, Spent

NAME = "shell"


class Shell:
    facts = AgentFacts(name=NAME, family=NAME, programs=("/bin/sh",), version=(), reports_cost=True)

    def start(self, task: AgentTask) -> Command:
        return Command(argv=("/bin/sh", "-c", task.prompt))

    def converse(self, _: AgentTask) -> Conversation:
        return _FreeConversation(TextOutput(AgentProfile(command=("/bin/sh",))))


class _FreeConversation:
    """Reads it as any command that prints text, and says that it cost nothing."""

    def __init__(self, text: Conversation) -> None:
        self.read = text.read
        self._text = text

    def exited(self, end: End) -> list[AgentEvent]:
        return [Spent(Tokens(), 0.0), *map(_mark_lasting, self._text.exited(end))]


def _mark_lasting(event: AgentEvent) -> AgentEvent:
    """A command that failed says so itself: the same again would end the same, unless the file asks for tries."""
    if isinstance(event, Ended) and event.error:
        return structs.replace(event, error=structs.replace(event.error, lasting=True))
    return event
