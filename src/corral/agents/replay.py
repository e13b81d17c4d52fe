"""A recorded attempt as an agent: its lines come from a file and are read as the recorded agent's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.protocol import Agent, Conversation
from corral.model import Failure, Tokens
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, HangUp, Line, OutputFormat
from corral.model.errors import BadRequest, CorralError
from corral.model.events import AgentEvent, Ended, Spent, Unparsed
from corral.model.values import usd_or_none

REPLAYER = "corral:replayer"  #: the engine knows where corral's own programs lie
HINT = "play it where it was recorded, or record it anew: corral export RUN --recording FILE"
Find = Callable[[str, AgentProfile], Agent]


class ReaderSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of an agent's settings decides how its lines are read."""

    command: tuple[str, ...] = ()
    output: OutputFormat = "text"
    result: str | None = None
    success: str | None = None
    cost: str | None = None
    tokens: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def profile(self) -> AgentProfile:
        return AgentProfile(**{name: getattr(self, name) for name in self.__struct_fields__})


class Replay:
    facts = AgentFacts(name="replay", family="replay", programs=(REPLAYER,), version=(), reports_cost=True)

    def __init__(self, profile: AgentProfile, find: Find) -> None:
        self._profile, self._find = profile, find

    def start(self, task: AgentTask) -> Command:
        file = task.model or self._profile.model
        if not file:
            raise BadRequest(
                "the replay agent needs a recording", hint="--agent replay:FILE; see docs: record and replay"
            )
        return Command(argv=(REPLAYER, file), programs=(file,))

    def converse(self, task: AgentTask) -> ReplayConversation:
        return ReplayConversation(self._find, task)


class _ReplayHead(Struct):
    agent: str
    reads: ReaderSettings = ReaderSettings()


class _Turn(Struct):
    code: int
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class _ReplayerLine(Struct):
    """A line of the replaying program itself."""

    corral_replay: _ReplayHead | None = None
    corral_turn: _Turn | None = None
    corral_refused: str | None = None


_DECODE = msgspec.json.Decoder(_ReplayerLine)


class ReplayConversation:
    """Hands each line to the recorded agent's own reader, and each turn to a new one."""

    def __init__(self, find: Find, task: AgentTask) -> None:
        self._find, self._task = find, task
        self._agent: Agent | None = None
        self._reader: Conversation | None = None
        self._before = (Tokens(), 0.0)  # of turns that are over
        self._spent = (Tokens(), 0.0)
        self._ended = False

    def read(self, line: str) -> Sequence[AgentEvent]:
        if line.startswith('{"corral_'):
            own = self._own(line)
            if own is not None:
                return own
        if self._reader is None:
            if self._agent is None:
                return [Unparsed(line)]
            self._reader, self._ended = self._agent.converse(self._task), False
        return self._agent_events(self._reader.read(line))

    def exited(self, end: End) -> Sequence[AgentEvent]:
        if self._ended:
            return []
        if self._reader is not None:
            return self._agent_events(self._reader.exited(end))
        words = end.stderr.strip().splitlines()
        return [self._refuse(f"the recording ended with {end.code}" + (f": {words[-1]}" if words else ""))]

    def _own(self, line: str) -> list[AgentEvent] | None:
        try:
            own = decode(_DECODE, line)
        except UNREADABLE:
            return None
        if own.corral_refused is not None:
            return [self._refuse(own.corral_refused)]
        if own.corral_replay is not None and self._agent is None:
            return self._begin(own.corral_replay)
        if own.corral_turn is not None and self._agent is not None:
            return self._turn(self._agent, own.corral_turn)
        return None

    def _begin(self, head: _ReplayHead) -> list[AgentEvent]:
        try:
            self._agent = self._find(head.agent, head.reads.profile)
        except CorralError as error:
            return [self._refuse(f"it was recorded with an agent that is not known here: {error}")]
        return []

    def _turn(self, agent: Agent, turn: _Turn) -> list[AgentEvent]:
        reader = self._reader or agent.converse(self._task)
        events = self._agent_events(reader.exited(End(turn.code, turn.stderr, turn.files)))
        self._reader, self._before, self._ended = None, self._spent, True
        return events

    def _agent_events(self, heard: Sequence[object]) -> list[AgentEvent]:
        """Leave out what is meant for the agent's stdin; what a turn spends comes on top of those before."""
        events: list[AgentEvent] = []
        for each in heard:
            if isinstance(each, Spent):
                tokens, usd = self._before
                self._spent = (tokens + each.tokens, usd_or_none(usd + (each.usd or 0.0)) or 0.0)
                events.append(Spent(self._spent[0], None if each.usd is None else self._spent[1]))
            elif not isinstance(each, Line | HangUp):
                events.append(each)  # pyright: ignore[reportArgumentType]
        return events

    def _refuse(self, why: str) -> Ended:
        self._ended = True
        return Ended(ok=False, error=Failure("bad_output", why, HINT))
