"""The built-in scripted agent: plays a small file instead of asking a model. For the demo and for users' own tests."""

from __future__ import annotations

from corral.adapter import AgentFacts, AgentProfile, AgentTask, Command
from corral.agents.our_events import OurEvents
from corral.errors import BadRequest

PLAYER = "corral:player"  #: the engine knows where corral's own programs lie


class Scripted:
    facts = AgentFacts(
        name="scripted",
        family="scripted",
        programs=(PLAYER,),
        version=(),
        resumes=True,
        reports_cost=True,
        reads=("AGENTS.md",),  # it plays: nothing need be told to it
        models="FILE.toml",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        script = task.model or self._profile.model
        if not script:
            raise BadRequest(
                "the scripted agent needs a script", hint="--agent scripted:FILE.toml; see docs: scripted agent"
            )
        return Command(
            argv=(PLAYER, script, str(task.number), task.session or ""),
            stdin=task.prompt.encode(),
            programs=(script,),
        )

    def converse(self, _: AgentTask) -> OurEvents:
        return OurEvents("the script")
