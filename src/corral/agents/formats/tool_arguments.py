"""The main argument of a tool call for display; programs name the same thing differently."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from corral.agents.formats.printed_json import UNREADABLE

MOST_SHOWN = 500
MOST_JUDGED = 20_000
SHELL_WORDS = 3  #: of `bash -lc LINE`: the line is what is judged


class _Arguments(Struct, gc=False):
    file_path: str | None = None
    notebook_path: str | None = None
    filePath: str | None = None  # noqa: N815 -- as opencode calls it
    absolute_path: str | None = None
    path: str | None = None
    command: str | None = None
    pattern: str | None = None
    url: str | None = None
    query: str | None = None
    description: str | None = None
    prompt: str | None = None


class _JudgedArguments(Struct, gc=False):
    """Those of them that a user's rules for tools look at."""

    command: str | list[str] = ""
    cmd: str | list[str] = ""
    path: str = ""
    file_path: str = ""
    filePath: str = ""  # noqa: N815 -- as opencode calls it
    url: str = ""
    query: str = ""


_DECODE = msgspec.json.Decoder(_Arguments)
_JUDGED = msgspec.json.Decoder(_JudgedArguments)


def main_argument(arguments: Raw) -> tuple[str, str | None]:
    """Return the argument worth showing, and the path the tool works on."""
    try:
        known = _DECODE.decode(arguments)
    except UNREADABLE:
        return bytes(arguments).decode(errors="replace")[:MOST_SHOWN], None
    file = known.file_path or known.notebook_path or known.filePath or known.absolute_path
    words = known.command or file or known.pattern or known.url or known.query or known.path
    words = words or known.description or known.prompt or bytes(arguments).decode(errors="replace")
    return words[:MOST_SHOWN], file or known.path


def call_arguments(arguments: Raw) -> dict[str, str]:
    """Return the arguments that rules for tools go by, whole; programs that run a shell give a list of words."""
    try:
        known = _JUDGED.decode(arguments)
    except UNREADABLE:
        return {}
    texts = {
        "command": _line(known.command or known.cmd),
        "path": known.path or known.file_path or known.filePath,
        "url": known.url,
        "query": known.query,
    }
    return {name: text[:MOST_JUDGED] for name, text in texts.items() if text}


def _line(command: str | list[str]) -> str:
    if isinstance(command, str):
        return command
    return command[2] if len(command) == SHELL_WORDS and command[1].startswith("-") else " ".join(command)
