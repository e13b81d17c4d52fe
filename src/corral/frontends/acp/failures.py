"""Errors as JSON-RPC carries them: a code, and words that a user understands."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from corral.agents.formats.acp import wire
from corral.model.errors import BadRequest, CorralError, NotFound

PARSE, INVALID, NO_SUCH_METHOD, BAD_PARAMETERS, INTERNAL = -32700, -32600, -32601, -32602, -32603
LOGIN_NEEDED, NOT_FOUND = -32000, -32002


class Refused(Exception):
    """A request that cannot be met as it is."""

    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


def refused_by(number: Raw, error: CorralError | Refused) -> wire.Line:
    """Return the answer to a request that failed; the hint is part of the words, for few clients show more."""
    code = error.code if isinstance(error, Refused) else _code(error)
    words = f"{error} ({error.hint})" if error.hint else str(error)
    body: dict[str, object] = {"code": code, "message": words}
    if error.hint:
        body["data"] = {"hint": error.hint}
    reply = {"jsonrpc": "2.0", "id": number, "error": body}
    return wire.Line(msgspec.json.encode(reply).decode())


def _code(error: CorralError) -> int:
    if isinstance(error, NotFound):
        return NOT_FOUND
    return BAD_PARAMETERS if isinstance(error, BadRequest) else INTERNAL
