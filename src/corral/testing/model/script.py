"""What a scripted model will say: turns, the calls in them, and which turn answers which request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PAST_THE_END = "done"
WRITE_HINT = 'write it as {"path": "a.txt", "content": "text"}'


class ScriptError(ValueError):
    """A script that cannot be played."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens to report; `input` counts neither of the two cache numbers."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0

    @property
    def whole_input(self) -> int:
        """The input as those providers count it that include what was cached."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the model does; each field that is set becomes a call of a tool that the program offered."""

    write: Mapping[str, str] | None = None  # {"path": ..., "content": ...}
    read: str | None = None  # a path
    sh: str | None = None  # a shell command
    tool: str | None = None  # this tool by name, offered or not; MCP tools too
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the arguments of `tool`

    def __post_init__(self) -> None:
        if self.write is not None and set(self.write) != {"path", "content"}:
            raise ScriptError("write needs a path and a content", WRITE_HINT)
        if self.input and self.tool is None:
            raise ScriptError("input is given, but no tool", "input holds the arguments of a tool named by `tool`")

    @property
    def asks(self) -> bool:
        return any(wish is not None for wish in (self.write, self.read, self.sh, self.tool))


@dataclass(frozen=True, kw_only=True)
class Turn(Call):
    """One answer of the model; it may hold calls directly, in `calls`, or both (then its own come first)."""

    text: str | None = None
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    status: int | None = None  # answer with this HTTP error instead
    message: str | None = None  # of that error
    retry_after_seconds: float | None = None  # header of that error
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # of the answer, whatever it is
    hang_seconds: float = 0  # before the first byte
    slow_seconds: float = 0  # after each chunk of a stream
    drop: bool = False  # close the connection half way through the answer
    times: int | None = (
        None  # status, hang and drop happen so often, then the rest of the turn is answered; None: always
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status is not None and not 400 <= self.status <= 599:
            raise ScriptError(f"status {self.status} is not an HTTP error", "give one from 400 to 599")
        if self.times is not None and self.times < 1:
            raise ScriptError(f"times is {self.times}", "give 1 or more, or leave it out for always")

    @property
    def all_calls(self) -> tuple[Call, ...]:
        return ((self,) if self.asks else ()) + self.calls

    @property
    def says(self) -> str:
        """Its text; a turn in which the model neither speaks nor calls ends the work."""
        if self.text is None:
            return "" if self.all_calls else PAST_THE_END
        return self.text

    @property
    def without_trouble(self) -> Turn:
        return replace(self, status=None, hang_seconds=0, drop=False)


@dataclass(frozen=True, kw_only=True)
class Script:
    """Turn i answers the request whose history holds i turns of the model, so retries and resuming need no memory."""

    turns: tuple[Turn, ...] = ()
    side_text: str = "Side answer"  # for requests beside the work (titles, summaries), known by offering no tools
    toolless: bool = False  # the program never offers tools: no request is a side request
    in_order: bool = False  # the i-th request gets turn i: for programs whose prompts hold made-up model turns

    def position(self, history: int, served: int, *, has_tools: bool) -> int | None:
        """The turn that answers a request with so much history, after so many were served; None: a side request."""
        if not has_tools and not self.toolless:
            return None
        return served if self.in_order else history

    def turn(self, position: int | None, attempt: int) -> Turn:
        """The turn at a position, when it is asked for the `attempt`-th time (counted from 1)."""
        if position is None:
            return self._side_turn()
        if position >= len(self.turns):
            return Turn(text=PAST_THE_END)
        turn = self.turns[position]
        return turn if turn.times is None or attempt <= turn.times else turn.without_trouble

    def _side_turn(self) -> Turn:
        # A provider that is down for good is down for titles too; trouble that is counted is kept for the real work.
        first = self.turns[0] if self.turns else Turn()
        lasting = first.times is None and (first.status is not None or first.hang_seconds > 0)
        return first if lasting else Turn(text=self.side_text)
