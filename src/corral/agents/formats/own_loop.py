"""What the agents that are our own loop have in common: how it is started."""

from __future__ import annotations

from msgspec import structs

from corral.agents.formats import call_hook
from corral.agents.formats.our_events import OurEvents
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, image_path
from corral.model.errors import BadRequest

LOOP = "corral:loop"  #: the engine knows where corral's own programs lie


class OwnLoop:
    """A model of one provider, at work by our own loop."""

    def __init__(self, profile: AgentProfile, facts: AgentFacts, example: str, standard: str | None = None) -> None:
        self._profile, self._example, self._standard = profile, example, standard
        self.facts = structs.replace(facts, rules="hook", images=True)

    def start(self, task: AgentTask) -> Command:
        model = task.model or self._profile.model or self._standard
        if not model:
            name = self.facts.name
            raise BadRequest(f"the agent `{name}` needs a model", hint=f"--agent {name}:{self._example}")
        going_on = ("--session", task.session) if task.session else ()
        looking = ("--read-only",) if task.read_only else ()
        ruled = ("--hook", f"{task.home}/{call_hook.FILE}") if task.hook else ()
        seeing = () if task.session else tuple(f"--image={image_path(task, image)}" for image in task.images)
        return Command(
            argv=(LOOP, *going_on, *looking, *ruled, *seeing, "--", self.facts.name, model),
            stdin=task.prompt.encode(),
            files=call_hook.files(task),
        )

    def converse(self, _: AgentTask) -> OurEvents:
        return OurEvents("the loop")
