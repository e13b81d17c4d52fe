"""Of a tool call's arguments, what a person wants to see; programs name the same thing differently."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from corral.agents.formats.printed_json import UNREADABLE

MOST_SHOWN = 500


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


_DECODE = msgspec.json.Decoder(_Arguments)


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
