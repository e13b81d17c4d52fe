"""Programs that call tools: what is run, within which limits, and what came of it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

Language = Literal["javascript", "typescript", "python"]
ProgramErrorClass = Literal["memory", "cpu", "timeout", "output", "refused", "program"]
#: What a call of a tool may fail with: its class inside a program.
CallErrorClass = Literal["refused", "not_found", "bad_arguments", "limit", "failed"]

SUFFIXES: dict[str, Language] = {
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".mts": "typescript",
    ".py": "python",
}
MOST_SOURCE_BYTES = 256 << 10


class ProgramLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program may use up."""

    memory_mb: int = 128
    cpu_seconds: int = 30
    timeout_seconds: float = 60.0
    output_bytes: int = 1 << 20  #: of its result, and of what it prints
    calls: int = 1000
    call_bytes: int = 32 << 20  #: of the arguments and results of all calls together
    depth: int = 3  #: programs that start each other


class Program(Struct, frozen=True, kw_only=True):
    """A program as it is run."""

    name: str
    language: Language
    source: str
    tools: tuple[str, ...] = ()  #: granted
    limits: ProgramLimits = ProgramLimits()


class ProgramFailure(Struct, frozen=True):
    """Why a program did not end well."""

    kind: ProgramErrorClass = field(name="class")
    message: str
    hint: str = ""


class ProgramResult(Struct, frozen=True, kw_only=True):
    """What came of a program."""

    status: Literal["done", "failed"]
    result: Any = None
    calls: int = 0
    seconds: float = 0.0
    error: ProgramFailure | None = None
    printed: str = ""  #: the end of what it printed
    level: str = ""  #: of the box it ran in


class CallError(Struct, frozen=True):
    """Why a call of a tool failed, as its program sees it."""

    kind: CallErrorClass = field(name="class")
    message: str


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call that a program made, as it is logged."""

    number: int
    tool: str
    arguments: Any
    value: Any = None
    error: CallError | None = None
    seconds: float = 0.0
    whole: bool = True  #: nothing was cut off; else it can only be looked at


class ProgramRecord(Struct, frozen=True, kw_only=True):
    """A program that ran: all that is needed to look at it, to repeat it, or to keep it as a tool."""

    id: str
    created: float
    repo: str
    run: str | None = None
    tool: str | None = None  #: the stored tool it is
    hash: str
    program: Program
    input: Any = None
    calls: tuple[ToolCall, ...] = ()
    result: ProgramResult


class ProgramReplay(Struct, frozen=True, kw_only=True):
    """A program that ran once more, with the answers that its calls had then."""

    program: str
    differences: tuple[str, ...]  #: none: it did the same
    result: ProgramResult


class ApprovedTool(Struct, frozen=True, kw_only=True):
    """A kept tool that a node of a flow runs, as the user had approved it when the flow was read."""

    name: str
    folder: str
    hash: str
    input_schema: dict[str, Any] = {}
    limits: ProgramLimits = ProgramLimits()


class ToolUses(Struct, frozen=True):
    """How often a stored tool was used."""

    uses: int = 0
    succeeded: int = 0
    last_used: float | None = None
