"""What an ACP agent does with its tools: told in pieces, put together here, and what it may be allowed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, field

from corral.agents.formats.acp import wire
from corral.agents.formats.printed_json import UNREADABLE
from corral.agents.formats.tool_arguments import main_argument
from corral.model.events import AgentEvent, CalledTool, Changed, ToolReturned

WRITING = ("edit", "delete", "move")
#: Kinds of tools that a read-only task does without; one that does not say its kind is taken for one of them.
CHANGING = (*WRITING, "execute", None)
REFUSED = "no"  #: to what offers no refusal of its own
OVER = ("completed", "failed")


class _AcpCall(Struct):
    """One use of a tool, as far as it is known."""

    name: str = "tool"
    title: str = ""
    kind: str | None = None
    words: str = ""
    paths: dict[str, None] = field(default_factory=dict[str, None])
    output: str = ""
    told: bool = False
    over: bool = False


class AcpTools:
    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._calls: dict[str, _AcpCall] = {}
        self.denied: dict[str, None] = {}

    @property
    def were_used(self) -> bool:
        return bool(self._calls)

    def update(self, told: wire.Update) -> list[AgentEvent]:
        """Take in what is new about a call; it is told once its arguments are known, and once it is over."""
        call = self._learn(told)
        if call.over:
            return []
        ready = bool(call.words) if told.session_update == "tool_call" else told.status in ("in_progress", *OVER)
        events = self._announce_call(call, told.tool_call_id) if ready else []
        if told.status not in OVER:
            return events
        call.over, ok = True, told.status == "completed"
        changed: list[AgentEvent] = [Changed(path) for path in call.paths] if ok and call.kind in WRITING else []
        return [*events, ToolReturned(told.tool_call_id, ok, call.output[: wire.MOST_TEXT]), *changed]

    def ask(self, asked: wire.Permission) -> tuple[list[AgentEvent], str, wire.PermissionChoice | None]:
        """Decide whether it may: return what is to be told, the question, and the choice; None where none fits."""
        call = self._learn(asked.tool_call)
        events = self._announce_call(call, asked.tool_call.tool_call_id)
        refused = self._read_only and call.kind in CHANGING
        refusals, grants = ("reject_once", "reject_always"), ("allow_once", "allow_always")
        # One who offers refusals alone gets one: `cancelled` is for a turn that was cancelled.
        wanted = refusals if refused else (*grants, *refusals)
        question = f"may it use {call.name}: {call.title or call.words}"[: wire.MOST_TEXT]
        choice = _first(asked.options, wanted)
        if refused or (choice is not None and choice.kind in refusals):
            self.denied[call.name if call.name != "tool" else call.kind or "tool"] = None
        return events, question, choice

    def answers_and_default(self, options: Sequence[wire.PermissionChoice]) -> tuple[tuple[str, ...], str]:
        """Return a permission's answers as words, and the one that holds if nobody answers: no."""
        refusal = _first(options, ("reject_once", "reject_always"))
        words = tuple(dict.fromkeys(_option_name(option) for option in options))
        return (words, _option_name(refusal)) if refusal else ((*words, REFUSED), REFUSED)

    def choose(self, options: Sequence[wire.PermissionChoice], words: str) -> wire.PermissionChoice | None:
        """Return the answer that a person's words name; None refuses without one."""
        found = next((option for option in options if _option_name(option) == words), None)
        if found is None or not found.kind.startswith("allow"):
            self.denied["tool"] = None
        return found

    def _announce_call(self, call: _AcpCall, number: str) -> list[AgentEvent]:
        if call.told:
            return []
        call.told = True
        return [CalledTool(call.name, call.words or call.title, number)]

    def _learn(self, told: wire.Update) -> _AcpCall:
        call = self._calls.setdefault(told.tool_call_id, _AcpCall())
        call.kind = told.kind or call.kind
        call.name = (
            told.name or wire.meta(told.meta).tool_name or (call.kind if call.name == "tool" else "") or call.name
        )
        call.title = told.title or call.title
        if bytes(told.raw_input) not in (b"", b"{}", b"null"):
            words, path = main_argument(told.raw_input)
            call.words = words or call.words
            call.paths |= {path: None} if path and call.kind in WRITING else {}
        call.paths |= {place.path: None for place in told.locations or () if place.path}
        found = wire.pieces(told.content)
        call.paths |= {piece.path: None for piece in found if piece.type == "diff" and piece.path}
        texts = [piece.content.text for piece in found if piece.content and piece.content.text]
        call.output = "\n".join(texts) or _output(told.raw_output) or call.output
        return call


def _option_name(option: wire.PermissionChoice) -> str:
    return option.name or option.kind or option.option_id


def _first(options: Sequence[wire.PermissionChoice], kinds: Sequence[str]) -> wire.PermissionChoice | None:
    return next((option for kind in kinds for option in options if option.kind == kind), None)


class _Output(Struct):
    output: str = ""
    content: str = ""
    message: str = ""


_OUTPUT = msgspec.json.Decoder(str | _Output)


def _output(raw: Raw) -> str:
    try:
        told = _OUTPUT.decode(raw)
    except UNREADABLE:
        return ""
    return told if isinstance(told, str) else told.output or told.content or told.message
