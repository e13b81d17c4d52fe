"""The script's steps as calls of the tools that the program offered in its request."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.testing.model.reading import part, text_of
from corral.testing.model.script import Call

WRITE_TOOLS = ("Write", "write_file", "write", "write_to_file", "create_file", "create", "Create", "save-file")
READ_TOOLS = ("Read", "read_file", "read", "view")
SHELL_TOOLS = (
    "Bash",
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "execute_command",
    "Execute",
    "launch-process",
)


@dataclass(frozen=True, kw_only=True)
class OfferedTool:
    """A tool that the program offered: what it takes, and the form of its calls."""

    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: str = "function"
    namespace: str = ""
    name: str = ""  # inside its namespace


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A call as it goes out: this tool, these arguments."""

    name: str
    arguments: Mapping[str, Any]
    offer: OfferedTool = OfferedTool()


Offers = Mapping[str, OfferedTool]


class NoSuchToolError(LookupError):
    """The script has a step for which the program offered no tool."""


def tool_uses(calls: Iterable[Call], offers: Offers) -> tuple[ToolUse, ...]:
    uses: list[ToolUse] = []
    for call in calls:
        if call.write is not None:
            uses.append(_write(call.write["path"], call.write["content"], offers))
        if call.read is not None:
            uses.append(_read(call.read, offers))
        if call.sh is not None:
            uses.append(_shell(call.sh, offers))
        if call.tool is not None:
            uses.append(ToolUse(name=call.tool, arguments=call.input, offer=offers.get(call.tool, OfferedTool())))
    return tuple(uses)


def _write(path: str, content: str, offers: Offers) -> ToolUse:
    name = _first(WRITE_TOOLS, offers)
    if name:
        places = dict.fromkeys(("file_path", "filePath", "path"), path)
        contents = dict.fromkeys(("content", "file_text", "file_content"), content)
        return _use(name, {**places, **contents}, offers)
    if "apply_patch" in offers:
        patch = _patch(path, content)
        return _use("apply_patch", {"input": patch, "patchText": patch}, offers)
    return _shell(f"printf %s {shlex.quote(content)} > {shlex.quote(path)}", offers)


def _read(path: str, offers: Offers) -> ToolUse:
    name = _first(READ_TOOLS, offers)
    if name:
        return _use(name, dict.fromkeys(("file_path", "filePath", "absolute_path", "path"), path), offers)
    return _shell(f"cat {shlex.quote(path)}", offers)


def _shell(command: str, offers: Offers) -> ToolUse:
    name = _first(SHELL_TOOLS, offers)
    if not name:
        offered = ", ".join(sorted(offers)) or "nothing"
        raise NoSuchToolError(f"the script needs a shell tool, the program offers {offered}")
    arguments = {
        "command": ["bash", "-lc", command] if _wants_list(offers[name]) else command,
        "cmd": command,
        "description": "run",
        "is_background": False,
        "requires_approval": False,
        "wait": True,
        "max_wait_seconds": 30,
    }
    return _use(name, arguments, offers)


def _first(names: Iterable[str], offers: Offers) -> str | None:
    return next((name for name in names if name in offers), None)


def _use(name: str, arguments: Mapping[str, Any], offers: Offers) -> ToolUse:
    """Programs name the same argument differently: of all the names, keep those that the schema knows."""
    known = part(offers[name].schema, "properties")
    fitting = {key: value for key, value in arguments.items() if key in known}
    return ToolUse(name=name, arguments=fitting or arguments, offer=offers[name])


def _wants_list(shell: OfferedTool) -> bool:
    described = part(part(shell.schema, "properties"), "command")
    return shell.kind == "local_shell" or text_of(described, "type").lower() == "array"


def _patch(path: str, content: str) -> str:
    lines = "".join(f"+{line}\n" for line in content.removesuffix("\n").split("\n"))
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
