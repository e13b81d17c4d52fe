"""The built-in scripted agent: plays a small file instead of asking a model. For the demo and for users' own tests."""

from __future__ import annotations

import msgspec

from corral.agents.formats.our_events import OurEvents
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Answer, Command, End, HangUp, Line
from corral.model.errors import BadRequest
from corral.model.events import AgentEvent, Asked, Ended

PLAYER = "corral:player"  #: the engine knows where corral's own programs lie


class Scripted:
    facts = AgentFacts(
        name="scripted",
        family="scripted",
        programs=(PLAYER,),
        version=(),
        resumes=True,
        conversation=(),
        reports_cost=True,
        reads=("AGENTS.md",),  # it plays a script: it needs no instructions
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
            stdin=_line(prompt=task.prompt).encode() + b"\n",
            talks=True,
            programs=(script,),
        )

    def converse(self, _: AgentTask) -> ScriptedConversation:
        return ScriptedConversation()


class ScriptedConversation:
    """Reads what the player prints, and answers the questions that it waits for."""

    def __init__(self) -> None:
        self._events = OurEvents("the script")
        self._asks: set[str] = set()

    def read(self, line: str) -> list[AgentEvent | Line | HangUp]:
        heard: list[AgentEvent | Line | HangUp] = [*self._events.read(line)]
        self._asks |= {each.ask for each in heard if isinstance(each, Asked) and each.ask}
        return [*heard, HangUp()] if any(isinstance(each, Ended) for each in heard) else heard

    def answer(self, order: Answer) -> list[Line]:
        if order.ask not in self._asks:
            return []
        self._asks.remove(order.ask)
        return [Line(_line(ask=order.ask, answer=order.text))]

    def exited(self, end: End) -> list[AgentEvent]:
        return self._events.exited(end)


def _line(**fields: str) -> str:
    return msgspec.json.encode(fields).decode()


AGENTS = {"scripted": Scripted}  #: by the names they are asked for
