"""What happened, typed and in the past tense: from agents through their files, and from the engine itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from corral.model import CheckResult, Failure, Status, Tokens
from corral.model.errors import CorralError

BY_HAND = "a user worked in it by hand"  #: the last word of an agent whose program a user has left

StatusOf = Literal["run", "node", "attempt"]


def _snake(name: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")


class _Event(Struct, frozen=True, tag_field="type", tag=_snake, omit_defaults=True):
    """Base of all events; the tag is the class name in snake case."""


class Started(_Event, frozen=True):
    session: str | None = None
    model: str | None = None
    version: str | None = None


class Said(_Event, frozen=True):
    text: str


class CalledTool(_Event, frozen=True):
    tool: str
    input: str = ""  #: short, for reading: a path, a command, or compact JSON
    call: str = ""


class ToolReturned(_Event, frozen=True):
    call: str = ""
    ok: bool = True
    output: str = ""


class Changed(_Event, frozen=True):
    path: str


class Spent(_Event, frozen=True):
    """Totals of the attempt so far, so that hearing it twice does no harm."""

    tokens: Tokens = Tokens()
    usd: float | None = None
    computed_usd: float | None = None  #: as corral counts it so far, where the agent does not say


class ContextUsed(_Event, frozen=True):
    """How much of its model's window the agent's last request took up."""

    tokens: int
    window: int | None = None  #: how large that is, if known


class QuotaReported(_Event, frozen=True):
    """The use of a window of its account's quota, if the agent reports it: `5h`, `7d`."""

    window: str
    used: float | None = None  #: a share: 1 is all of it
    resets: float | None = None  #: seconds since 1970


class Asked(_Event, frozen=True):
    question: str
    ask: str = ""
    answer: str = ""  #: the answer, where it was decided at once
    choices: tuple[str, ...] = ()  #: what it may be answered; empty: any words
    default: str = ""  #: the answer if nobody gives one
    tool: str = ""  #: it asks leave to call this
    arguments: Mapping[str, str] | None = None  #: of that call, those that rules go by
    grant: str = ""  #: the answer that allows it


class Step(Struct, frozen=True, omit_defaults=True):
    """One step of an agent's plan, and how far it is: pending, in_progress, completed."""

    text: str
    status: str = "pending"


class Planned(_Event, frozen=True):
    """What the agent means to do, whole each time."""

    steps: tuple[Step, ...]


class SteerTaken(_Event, frozen=True):
    """The agent has taken in a user's message while it worked."""

    text: str


class Limited(_Event, frozen=True):
    message: str
    until: float | None = None


class Ended(_Event, frozen=True):
    """The agent's last word. Only ok=True makes its part succeed."""

    ok: bool
    text: str = ""
    error: Failure | None = None
    status: Status | None = None  #: when it is neither done nor plainly failed: over_budget, limited
    output: Any = None
    denied: tuple[str, ...] = ()  #: tools it wanted and did not get


class Unparsed(_Event, frozen=True):
    """A line that its agent's file does not know; kept, never fatal."""

    line: str


class Rejected(_Event, frozen=True):
    """The agent's output did not fit what its node asks for: it is asked once more."""

    misfits: tuple[str, ...]


class Condensed(_Event, frozen=True):
    """The agent continues in a session of its own that starts from this summary."""

    number: int
    reason: str
    summary: str
    by: str  #: `rules`, or the agent that wrote it
    session: str | None = None  #: the one that was left


class Noted(_Event, frozen=True):
    """The engine's own words."""

    text: str
    hook: str = ""  #: the moment of the user's hook that these words are about


class Reported(_Event, frozen=True):
    """The agent reported through its toolbox what it is doing."""

    text: str
    percent: float = 0.0  #: 0: not said


class Mailed(_Event, frozen=True):
    """The agent wrote to another."""

    to: str
    text: str  #: the beginning of it
    thread: str = ""
    priority: str = "normal"


class Reached(_Event, frozen=True):
    """The agent asked for a host outside its box."""

    host: str
    port: int
    allowed: bool
    reason: str = ""


class Checked(_Event, frozen=True):
    check: CheckResult


class StatusChanged(_Event, frozen=True):
    """A run, a node or an attempt reached a status."""

    kind: StatusOf
    id: str
    status: Status
    reason: str | None = None


class UserAsked(_Event, frozen=True):
    """The user is asked something: it waits in the inbox."""

    entry: str  #: its number there
    text: str
    ways: str = ""  #: what may be answered, as one types it: `yes|no`

    @property
    def words(self) -> str:
        """The question, and the command that answers it."""
        return f"{self.text} (corral answer {self.entry} {self.ways})" if self.entry else self.text


class Moved(_Event, frozen=True):
    """`StatusChanged` as stores before 0.2 contain it; read, never written."""

    what: str
    status: Status
    reason: str | None = None


class ContextUsedBefore(ContextUsed, frozen=True, tag="filled"):
    """`ContextUsed` as stores before 0.2 contain it; read, never written."""


class QuotaReportedBefore(QuotaReported, frozen=True, tag="rationed"):
    """`QuotaReported` as stores before 0.2 contain it; read, never written."""


class SteerTakenBefore(SteerTaken, frozen=True, tag="heeded"):
    """`SteerTaken` as stores before 0.2 contain it; read, never written."""


Event = (
    Started | Said | CalledTool | ToolReturned | Changed | Spent | ContextUsed | QuotaReported | Asked | Planned
    | SteerTaken | Limited | Ended | Unparsed | Rejected | Condensed | Noted | Reported | Mailed | Reached | Checked
    | StatusChanged | UserAsked
)  # fmt: skip

#: What an agent may report; the rest is the engine's own, and no agent's line can forge it.
AgentEvent = (
    Started | Said | CalledTool | ToolReturned | Changed | Spent | ContextUsed | QuotaReported | Asked | Planned
    | SteerTaken | Limited | Ended | Unparsed
)  # fmt: skip

#: How `UserAsked` begins in stores of before 0.2: as words of `Noted`.
_ASKED_BEFORE = "waits for you: "

#: Events that decide what becomes of an attempt: stored even when an agent floods.
VITAL = (
    Started,
    Spent,
    Asked,
    SteerTaken,
    Limited,
    Ended,
    Rejected,
    Condensed,
    Noted,
    Checked,
    StatusChanged,
    UserAsked,
)


class StoredEvent(Struct, frozen=True):
    """An event at its place in the log."""

    seq: int
    at: float
    node: str | None
    attempt: str | None
    body: bytes

    def event(self) -> Event:
        return _as_now(DECODER.decode(self.body))


class RunEvent(Struct, frozen=True):
    """An event as watchers of a run in this process get it."""

    run: str
    node: str | None
    attempt: str | None
    event: Event


#: Tags of before 0.2, which stores and recordings contain.
OlderEvent = ContextUsedBefore | QuotaReportedBefore | SteerTakenBefore

DECODER: msgspec.json.Decoder[Event | OlderEvent | Moved] = msgspec.json.Decoder(Event | OlderEvent | Moved)
AGENT_DECODER: msgspec.json.Decoder[AgentEvent | OlderEvent] = msgspec.json.Decoder(AgentEvent | OlderEvent)


def with_present_tag(event: AgentEvent | OlderEvent) -> AgentEvent:
    """Return an agent's event under its present tag."""
    match event:
        case ContextUsedBefore():
            return ContextUsed(event.tokens, event.window)
        case QuotaReportedBefore():
            return QuotaReported(event.window, event.used, event.resets)
        case SteerTakenBefore():
            return SteerTaken(event.text)
        case _:
            return event


def _as_now(event: Event | OlderEvent | Moved) -> Event:
    """Return an event of an older store in its present form."""
    if isinstance(event, ContextUsedBefore | QuotaReportedBefore | SteerTakenBefore):
        return with_present_tag(event)
    if isinstance(event, Moved):
        kind, _, name = event.what.partition(" ")
        known: StatusOf = "run" if kind == "run" else "node" if kind == "node" else "attempt"
        return StatusChanged(known, name, event.status, event.reason)
    if isinstance(event, Noted) and event.text.startswith(_ASKED_BEFORE):
        return UserAsked("", event.text.removeprefix(_ASKED_BEFORE))
    return event


Listener = Callable[[RunEvent], None]  #: hears what happens in a run, in this process


def tell(listen: Listener, heard: RunEvent) -> None:
    """Tell a watcher; one that fails (its terminal is gone, its pipe closed) must not fail the work."""
    try:
        listen(heard)
    except (OSError, ValueError, CorralError):
        return
