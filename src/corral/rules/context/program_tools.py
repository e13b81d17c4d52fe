"""Tools of programs: what each takes and gives, and their declarations for those who write programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from corral.rules.context.tools import (
    AskPerson,
    ChildResult,
    ReadMail,
    ReadOutput,
    Remember,
    ReportProgress,
    RunTool,
    SearchMemory,
    SendMail,
    SpawnTask,
)

PathText = Annotated[str, Meta(max_length=4096)]
MOST_FOUND = 1000
MOST_LISTED = 20_000
LONGEST_COMMAND_SECONDS = 600.0


class ListFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """List the files below a folder that the scope lets you read; ignored files are left out."""

    path: PathText = ""
    pattern: Annotated[str, Meta(max_length=400)] = "**"
    most: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = MOST_LISTED


class ReadFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a text file."""

    path: PathText


class WriteFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Write a text file, where the scope lets you write."""

    path: PathText
    content: str


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """Find the lines that contain a text, letter by letter."""

    text: Annotated[str, Meta(min_length=1, max_length=1000)]
    path: PathText = ""
    pattern: Annotated[str, Meta(max_length=400)] = "**"
    ignore_case: bool = False
    most: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = 200


class RunCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """Run a command line in a box, without network."""

    command: Annotated[str, Meta(min_length=1, max_length=100_000)]
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_COMMAND_SECONDS)] = 60.0


class RunTests(Struct, frozen=True, forbid_unknown_fields=True):
    """Run tests as a check runs, and count them; without a command, the first check of the settings."""

    command: Annotated[str, Meta(max_length=100_000)] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_COMMAND_SECONDS)] = 300.0


class Git(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask git: status, log, diff, show or branches. Nothing is changed."""

    command: Literal["status", "log", "diff", "show", "branches"]
    ref: Annotated[str, Meta(max_length=200)] = ""
    path: PathText = ""
    most: Annotated[int, Meta(ge=1, le=1000)] = 50


class ProgramToolFacts(Struct, frozen=True):
    """What is known of a tool before anything runs."""

    arguments: type[Struct]
    gives: str  #: its TypeScript type
    needs_run: bool = False

    @property
    def summary(self) -> str:
        return " ".join((self.arguments.__doc__ or "").split())


FOUND = "{path: string, line: number, text: string}[]"
RAN = "{exit_code: number, output: string, seconds: number, note: string}"
COUNTED = "{exit_code: number, passed: number | null, failed: number | null, skipped: number | null, "
TOOLS: Mapping[str, ProgramToolFacts] = {
    "list_files": ProgramToolFacts(ListFiles, "string[]"),
    "read_file": ProgramToolFacts(ReadFile, "string"),
    "write_file": ProgramToolFacts(WriteFile, "{path: string, bytes: number}"),
    "search": ProgramToolFacts(Search, FOUND),
    "run_command": ProgramToolFacts(RunCommand, RAN),
    "run_tests": ProgramToolFacts(RunTests, COUNTED + "failing: string[], output: string, seconds: number}"),
    "git": ProgramToolFacts(Git, "unknown"),
    "remember": ProgramToolFacts(Remember, "unknown"),
    "search_memory": ProgramToolFacts(SearchMemory, "unknown"),
    "report": ProgramToolFacts(ReportProgress, "{shown: boolean}"),
    "run_tool": ProgramToolFacts(RunTool, "unknown"),
    "ask_user": ProgramToolFacts(AskPerson, "{ask: string, answered: boolean, answer?: string}", needs_run=True),
    "spawn_task": ProgramToolFacts(SpawnTask, "{child: string}", needs_run=True),
    "wait": ProgramToolFacts(
        ChildResult, "{child: string, status: string, over: boolean, output?: string}", needs_run=True
    ),
    "read_output": ProgramToolFacts(ReadOutput, "{node: string, status: string, text: string}", needs_run=True),
    "send_mail": ProgramToolFacts(SendMail, "unknown", needs_run=True),
    "read_mail": ProgramToolFacts(ReadMail, "unknown", needs_run=True),
}
ALIASES = {"ask_person": "ask_user", "mail": "send_mail", "memory": "search_memory", "report_progress": "report"}

_TYPES = {"string": ("string", "str"), "integer": ("number", "int"), "number": ("number", "float"),
          "boolean": ("boolean", "bool")}  # fmt: skip


def typescript(names: Iterable[str]) -> str:
    """Return declarations of the granted tools, as the type of `tools`."""
    rows = ["/** A call that was refused or failed. */", "declare class ToolError extends Error { class: string }"]
    rows.append("interface Tools {")
    for name in names:
        facts = TOOLS[name]
        given = ", ".join(f"{key}{'' if must else '?'}: {kind}" for key, kind, must in _fields(facts.arguments, 0))
        rows += [f"  /** {facts.summary} */", f"  {name}(given: {{{given}}}): Promise<{facts.gives}>;"]
    return "\n".join([*rows, "}"]) + "\n"


def python_stubs(names: Iterable[str]) -> str:
    """Return the same as Python functions."""
    rows = ["from typing import Any", ""]
    for name in names:
        facts = TOOLS[name]
        given = [f"{key}: {kind}" + ("" if must else " = ...") for key, kind, must in _fields(facts.arguments, 1)]
        result = {"string": "str", "string[]": "list[str]"}.get(facts.gives, "Any")
        rows += [
            f"async def {name}({', '.join(['*', *given]) if given else ''}) -> {result}:",
            f'    """{facts.summary}"""',
            "    ...",
            "",
        ]
    return "\n".join(rows)


def _fields(kind: type[Struct], language: int) -> list[tuple[str, str, bool]]:
    """Return name, type and need of each argument; 0: TypeScript, 1: Python."""
    (_,), parts = msgspec.json.schema_components((kind,))
    schema = parts[kind.__name__]
    required = schema.get("required", [])
    return [(key, _type(about, language), key in required) for key, about in schema["properties"].items()]


def _type(about: Mapping[str, Any], language: int) -> str:
    if "enum" in about:
        words = [f'"{each}"' for each in about["enum"]]
        return f"Literal[{', '.join(words)}]" if language else " | ".join(words)
    if about.get("type") == "array":
        inner = _type(about.get("items", {}), language)
        return f"list[{inner}]" if language else f"{inner}[]"
    return _TYPES.get(about.get("type", ""), ("unknown", "Any"))[language]
