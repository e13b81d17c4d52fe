"""The built-in scripted agent: plays a small file instead of asking a model. For the demo and for users' own tests."""

from __future__ import annotations

import msgspec

from corral.errors import BadRequest
from corral.events import AGENT_DECODER, Ended, Event, Unparsed
from corral.model import AgentFacts, AgentProfile, AgentTask, Command, Failure

PLAYER = "corral:player"  #: the engine knows where corral's own programs lie


class Scripted:
    facts = AgentFacts(
        name="scripted", family="scripted", programs=(PLAYER,), version=(), resumes=True, reports_cost=True
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

    def converse(self) -> _Playing:
        return _Playing()


class _Playing:
    """The player prints our own events, one JSON object a line."""

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
        return [Ended(ok=False, error=Failure("crash", f"the script ended with {code} and no result{reason}"))]
