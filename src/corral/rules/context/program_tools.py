"""Tools of programs: what each takes and gives, and their declarations for those who write programs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect

from corral.rules.context.tools import (
    LONGEST_COMMAND_SECONDS,
    AckMail,
    AskUser,
    ChildResult,
    Git,
    Packages,
    PathText,
    ReadAnswer,
    ReadMail,
    ReadOutput,
    Remember,
    ReportProgress,
    RunTests,
    RunTool,
    SearchMemory,
    SendMail,
    SpawnTask,
)

MOST_FOUND = 1000
MOST_LISTED = 20_000
MOST_BODY = 8 << 20  #: of a request, and of its answer


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


class Http(Struct, frozen=True, forbid_unknown_fields=True):
    """Send an HTTP request to a host that the scope names; redirects are not followed."""

    url: Annotated[str, Meta(min_length=1, max_length=8000)]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: Annotated[dict[str, str], Meta(max_length=50)] = {}
    body: Annotated[str, Meta(max_length=MOST_BODY)] = ""
    most_bytes: Annotated[int, Meta(ge=0, le=MOST_BODY)] = 1 << 20
    timeout_seconds: Annotated[float, Meta(gt=0, le=300)] = 30.0


class ProgramToolFacts(Struct, frozen=True):
    """What is known of a tool before anything runs."""

    arguments: type[Struct]
    gives: str  #: its TypeScript type
    needs_run: bool = False

    @property
    def summary(self) -> str:
        words = " ".join((self.arguments.__doc__ or "").split())
        return words.replace("child_result", "wait")  # as agents call it


FOUND = "{path: string, line: number, text: string}[]"
RAN = "{exit_code: number, output: string, seconds: number, note: string}"
COUNTED = "{exit_code: number, passed: number | null, failed: number | null, skipped: number | null, "
MANAGERS = (
    "{manager: string, file: string, install: string, add: string, packages: {name: string, version: string}[]}[]"
)
ANSWERED = "{ask: string, answered: boolean, answer?: string}"
CHILD = (
    "{child: string, status: string, over: boolean, reason?: string, cost_usd?: number, output?: string, "
    "commit?: string, files?: string[], error?: string}"
)
TOOLS: Mapping[str, ProgramToolFacts] = {
    "list_files": ProgramToolFacts(ListFiles, "string[]"),
    "read_file": ProgramToolFacts(ReadFile, "string"),
    "write_file": ProgramToolFacts(WriteFile, "{path: string, bytes: number}"),
    "search": ProgramToolFacts(Search, FOUND),
    "run_command": ProgramToolFacts(RunCommand, RAN),
    "run_tests": ProgramToolFacts(RunTests, COUNTED + "failing: string[], output: string, seconds: number}"),
    "git": ProgramToolFacts(Git, "unknown"),
    "packages": ProgramToolFacts(Packages, MANAGERS),
    "http": ProgramToolFacts(Http, "{status: number, headers: Record<string, string>, body: string, whole: boolean}"),
    "remember": ProgramToolFacts(Remember, "unknown"),
    "search_memory": ProgramToolFacts(SearchMemory, "unknown"),
    "report": ProgramToolFacts(ReportProgress, "{shown: boolean}"),
    "run_tool": ProgramToolFacts(RunTool, "unknown"),
    "ask_user": ProgramToolFacts(AskUser, ANSWERED, needs_run=True),
    "read_answer": ProgramToolFacts(ReadAnswer, ANSWERED, needs_run=True),
    "spawn_task": ProgramToolFacts(SpawnTask, "{child: string}", needs_run=True),
    "wait": ProgramToolFacts(ChildResult, CHILD, needs_run=True),
    "read_output": ProgramToolFacts(ReadOutput, "{node: string, status: string, text: string}", needs_run=True),
    "send_mail": ProgramToolFacts(SendMail, "unknown", needs_run=True),
    "read_mail": ProgramToolFacts(ReadMail, "unknown", needs_run=True),
    "ack_mail": ProgramToolFacts(AckMail, "{acknowledged: number, still_waiting: number}", needs_run=True),
}
#: Older and shorter names that flows and stored tools may use.
ALIASES = {"ask_person": "ask_user", "mail": "send_mail", "memory": "search_memory", "report_progress": "report"}


def logged_arguments(tool: str, given: object) -> object:
    """Return the arguments of a call as a log has them: of a request, nothing that can be a secret."""
    if tool != "http" or not isinstance(given, Mapping):
        return given
    asked = dict(cast("Mapping[str, object]", given))
    address, question, _ = str(asked.get("url", "")).partition("?")
    try:
        named = urlsplit(address)
        place = named.netloc.rpartition("@")[2]
        asked["url"] = f"{named.scheme}://{place}{named.path}" + ("?..." if question else "")
    except ValueError:
        asked["url"] = "..."
    headers = asked.get("headers")
    asked |= {"headers": sorted(cast("Mapping[str, object]", headers))} if isinstance(headers, Mapping) else {}
    asked |= {"body": f"{len(str(asked['body']))} characters"} if "body" in asked else {}
    return asked


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
    rows = ["from typing import Any, Literal", ""]
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
    described = cast("inspect.StructType", inspect.type_info(kind))
    anything = {each.encode_name for each in described.fields if _takes_anything(each.type)}
    schema = parts[kind.__name__]
    required = schema.get("required", [])
    return [
        (key, _type({} if key in anything else about, language), key in required)
        for key, about in schema["properties"].items()
    ]


def _takes_anything(kind: inspect.Type) -> bool:
    """Tell whether a field takes any JSON; the schema of such a field says `string`, for models alone."""
    return isinstance(kind.type if isinstance(kind, inspect.Metadata) else kind, inspect.AnyType)


def _type(about: Mapping[str, Any], language: int) -> str:
    if "enum" in about:
        words = [f'"{each}"' for each in about["enum"]]
        return f"Literal[{', '.join(words)}]" if language else " | ".join(words)
    if about.get("type") == "array":
        inner = _type(about.get("items", {}), language)
        return f"list[{inner}]" if language else f"{inner}[]"
    return _TYPES.get(about.get("type", ""), ("unknown", "Any"))[language]


# --- what a workspace declares to its package managers

PACKAGE_FILES = ("uv.lock", "pyproject.toml", "requirements.txt", "package.json", "Cargo.toml", "go.mod")
MOST_PACKAGES = 500
#: A requirement of Python: its name with extras, and what is said of its version.
REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?)\s*([^;#]*)")
GO_LINE = re.compile(r"^\s*(?:require\s+)?([\w.~-]+(?:/[\w.~-]+)+)\s+(v\S+)", re.MULTILINE)


class DeclaredPackage(Struct, frozen=True):
    """A package that a file names."""

    name: str
    version: str = ""  #: as it is written; empty: any


class DeclaredPackages(Struct, frozen=True, kw_only=True):
    """A package manager that a workspace has a file of."""

    manager: str
    file: str
    install: str  #: the command that installs what is declared
    add: str  #: the command that adds to it
    packages: list[DeclaredPackage]


def list_packages(files: Mapping[str, str]) -> list[DeclaredPackages]:
    """Return the managers whose files are there, with what each declares; a file that is broken declares nothing."""
    found: list[DeclaredPackages] = []
    if "pyproject.toml" in files:
        uses_uv = "uv.lock" in files
        commands = ("uv", "uv sync", "uv add NAME") if uses_uv else ("pip", "pip install -e .", "pip install NAME")
        found.append(_manager(commands, "pyproject.toml", _pyproject(files["pyproject.toml"])))
    if "requirements.txt" in files:
        commands = ("pip", "pip install -r requirements.txt", "pip install NAME")
        lines = (line for line in files["requirements.txt"].splitlines() if not line.lstrip().startswith(("#", "-")))
        found.append(_manager(commands, "requirements.txt", _requirements(lines)))
    if "package.json" in files:
        commands = ("npm", "npm install", "npm install NAME")
        found.append(_manager(commands, "package.json", _package_json(files["package.json"])))
    if "Cargo.toml" in files:
        found.append(_manager(("cargo", "cargo fetch", "cargo add NAME"), "Cargo.toml", _cargo(files["Cargo.toml"])))
    if "go.mod" in files:
        named = [DeclaredPackage(name, version) for name, version in GO_LINE.findall(files["go.mod"])]
        found.append(_manager(("go", "go mod download", "go get NAME"), "go.mod", named))
    return found


def _manager(commands: tuple[str, str, str], file: str, named: list[DeclaredPackage]) -> DeclaredPackages:
    manager, install, add = commands
    return DeclaredPackages(manager=manager, file=file, install=install, add=add, packages=named[:MOST_PACKAGES])


def _requirements(lines: Iterable[object]) -> list[DeclaredPackage]:
    read = (REQUIREMENT.match(line) for line in lines if isinstance(line, str) and line.strip())
    return [DeclaredPackage(each.group(1), each.group(2).strip()) for each in read if each]


def _pyproject(text: str) -> list[DeclaredPackage]:
    project = _table(_toml(text), "project")
    groups = [*_table(project, "optional-dependencies").values(), *_table(_toml(text), "dependency-groups").values()]
    lists = [project.get("dependencies"), *groups]
    return _requirements(line for each in lists if isinstance(each, list) for line in cast("list[object]", each))


def _package_json(text: str) -> list[DeclaredPackage]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return []
    tables = [_table(read, name) for name in ("dependencies", "devDependencies", "peerDependencies")]
    return [DeclaredPackage(name, str(version)) for table in tables for name, version in table.items()]


def _cargo(text: str) -> list[DeclaredPackage]:
    read = _toml(text)
    tables = [_table(read, name) for name in ("dependencies", "dev-dependencies", "build-dependencies")]
    return [DeclaredPackage(name, _cargo_version(about)) for table in tables for name, about in table.items()]


def _cargo_version(about: object) -> str:
    return about if isinstance(about, str) else str(_table({"it": about}, "it").get("version", ""))


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _table(read: object, name: str) -> dict[str, Any]:
    inner = cast("dict[str, Any]", read).get(name) if isinstance(read, dict) else None
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
