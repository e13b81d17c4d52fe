"""What happened, typed and in the past tense: told by agents through their files, and by the engine itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from corral.model import CheckResult, Failure, Status, Tokens
from corral.model.errors import CorralError


def _snake(name: str) -> str:
    return "".join(
        "_" + mail_message.lower() if mail_message.isupper() else mail_message for mail_message in name
    ).lstrip("_")


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


class Filled(_Event, frozen=True):
    """How much of its model's window the agent's last request took up."""

    tokens: int
    window: int | None = None  #: how large that is, where it is told


class Rationed(_Event, frozen=True):
    """How a window of its account's quota stands, where the agent tells it: `5h`, `7d`."""

    window: str
    used: float | None = None  #: a share: 1 is all of it
    resets: float | None = None  #: seconds since 1970


class Asked(_Event, frozen=True):
    question: str
    ask: str = ""
    answer: str = ""  #: what it was told, where that was decided at once
    choices: tuple[str, ...] = ()  #: what it may be answered; empty: any words
    default: str = ""  #: what it is told if nobody answers


class Step(Struct, frozen=True, omit_defaults=True):
    """One step of an agent's plan, and how far it is: pending, in_progress, completed."""

    text: str
    status: str = "pending"


class Planned(_Event, frozen=True):
    """What the agent means to do, whole each time."""

    steps: tuple[Step, ...]


class Heeded(_Event, frozen=True):
    """The agent has taken in what a person told it while it worked."""

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
    """The agent goes on in a session of its own that starts from this summary."""

    number: int
    reason: str
    summary: str
    by: str  #: `rules`, or the agent that wrote it
    session: str | None = None  #: the one that was left


class Noted(_Event, frozen=True):
    """The engine's own words."""

    text: str


class Reported(_Event, frozen=True):
    """The agent told the person through its toolbox what it is doing."""

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

    kind: Literal["run", "node", "attempt"]
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
    """`StatusChanged` as stores of before 0.2 hold it; read, never written."""

    what: str
    status: Status
    reason: str | None = None


Event = (
    Started | Said | CalledTool | ToolReturned | Changed | Spent | Filled | Rationed | Asked | Planned | Heeded
    | Limited | Ended | Unparsed | Rejected | Condensed | Noted | Reported | Mailed | Reached | Checked | StatusChanged
    | UserAsked
)  # fmt: skip

#: What an agent may tell us; the rest is the engine's own, and no agent's line can forge it.
AgentEvent = (
    Started | Said | CalledTool | ToolReturned | Changed | Spent | Filled | Rationed | Asked | Planned | Heeded
    | Limited | Ended | Unparsed
)  # fmt: skip

#: How `UserAsked` begins in stores of before 0.2: as words of `Noted`.
_ASKED_BEFORE = "waits for you: "

#: Events that decide what becomes of an attempt: stored even when an agent floods.
VITAL = (Started, Spent, Asked, Heeded, Limited, Ended, Rejected, Condensed, Noted, Checked, StatusChanged, UserAsked)


class StoredEvent(Struct, frozen=True):
    """An event where it stands in the log."""

    seq: int
    at: float
    node: str | None
    attempt: str | None
    body: bytes

    def event(self) -> Event:
        return _as_now(DECODER.decode(self.body))


class RunEvent(Struct, frozen=True):
    """An event as it is told to whoever watches a run in this process."""

    run: str
    node: str | None
    attempt: str | None
    event: Event


DECODER: msgspec.json.Decoder[Event | Moved] = msgspec.json.Decoder(Event | Moved)
AGENT_DECODER: msgspec.json.Decoder[AgentEvent] = msgspec.json.Decoder(AgentEvent)


def _as_now(event: Event | Moved) -> Event:
    """Return an event of an older store as it would be told now."""
    if isinstance(event, Moved):
        kind, _, name = event.what.partition(" ")
        known: Literal["run", "node", "attempt"] = "run" if kind == "run" else "node" if kind == "node" else "attempt"
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
