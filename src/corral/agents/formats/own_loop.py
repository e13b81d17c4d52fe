"""What the agents that are our own loop have in common: how it is started."""

from __future__ import annotations

from corral.agents.formats.our_events import OurEvents
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command
from corral.model.errors import BadRequest

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

    def converse(self, _: AgentTask) -> OurEvents:
        return OurEvents("the loop")
