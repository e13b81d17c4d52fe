"""The first stage of `corral acp`: private streams, and the answer to `initialize` before anything else is loaded."""

from __future__ import annotations

import json
import os

from corral.frontends.acp import initialize
from corral.frontends.acp.streams import CHUNK, Streams

MOST_FIRST = 1 << 20  #: bytes of a first line that this stage reads; a longer one is left to the next


def serve(ask_seconds: float | None = None) -> int:
    """Serve one client until it is gone."""
    streams = Streams()
    _answer_first(streams)
    from corral.frontends.acp.server import serve_streams  # noqa: PLC0415 -- after the first answer

    return serve_streams(streams, ask_seconds)


def _answer_first(streams: Streams) -> None:
    """Answer a first line that is `initialize`; anything else is left to the next stage."""
    while b"\n" not in streams.buffer and len(streams.buffer) < MOST_FIRST:
        chunk = os.read(streams.read_from, CHUNK)
        if not chunk:
            return
        streams.buffer += chunk
    line, _, rest = streams.buffer.partition(b"\n")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict) or message.get("method") != "initialize" or "id" not in message:  # pyright: ignore[reportUnknownMemberType]
        return
    asked: dict[str, object] = message  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(asked["id"], str | int | None):
        return
    reply = initialize.reply(asked["id"], asked.get("params"))
    os.write(streams.write_to, json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    streams.buffer = rest
    if "result" in reply:
        streams.opening = asked["params"]  # pyright: ignore[reportAttributeAccessIssue]
