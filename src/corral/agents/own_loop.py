"""What the agents that are our own loop have in common: how it is started, and what it prints."""

from __future__ import annotations

import msgspec

from corral.errors import BadRequest
from corral.events import AGENT_DECODER, Ended, Event, Unparsed
from corral.model import AgentFacts, AgentProfile, AgentTask, Command, Failure

LOOP = "corral:loop"  #: the engine knows where corral's own programs lie


class OwnLoop:
    """A model of one provider, at work by our own loop."""

    def __init__(self, profile: AgentProfile, facts: AgentFacts, example: str, standard: str | None = None) -> None:
        self._profile, self._example, self._standard = profile, example, standard
        self.facts = facts

    def start(self, task: AgentTask) -> Command:
        model = task.model or self._profile.model or self._standard
        if not model:
            name = self.facts.name
            raise BadRequest(f"the agent `{name}` needs a model", hint=f"--agent {name}:{self._example}")
        going_on = ("--session", task.session) if task.session else ()
        looking = ("--read-only",) if task.read_only else ()
        return Command(argv=(LOOP, *going_on, *looking, "--", self.facts.name, model), stdin=task.prompt.encode())

    def converse(self) -> _Working:
        return _Working()


class _Working:
    """The loop prints our own events, one JSON object a line."""

    def __init__(self) -> None:
        self._ended = False

    def read(self, line: str) -> list[Event]:
        try:
            event = AGENT_DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            return [Unparsed(line)]
        self._ended = self._ended or isinstance(event, Ended)
        return [event]

    def exited(self, code: int, stderr: str) -> list[Event]:
        if self._ended:
            return []
        words = stderr.strip().splitlines()
        reason = f": {words[-1]}" if words else ""
        return [Ended(ok=False, error=Failure("crash", f"the loop ended with {code} and no result{reason}"))]
