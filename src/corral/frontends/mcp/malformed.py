"""Messages that are no JSON-RPC: each gets the error that the specification names, with its id where it has one."""

from __future__ import annotations

from typing import Any

import msgspec
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from msgspec import Raw, Struct

NONE = Raw(b"")


class _MessageHead(Struct, frozen=True):
    jsonrpc: Raw = NONE
    id: Raw = NONE
    method: Raw = NONE
    params: Raw = NONE
    result: Raw = NONE
    error: Raw = NONE


class CheckedMessage(Struct, frozen=True):
    """What is known of a message: its id, and the answer if it is not to be passed on."""

    id: int | str | None = None
    refusal: JSONRPCError | None = None


def vet(text: bytes | str) -> CheckedMessage:
    """Look whether a text is a message of JSON-RPC 2.0 as MCP uses it."""
    try:
        head = msgspec.json.decode(text, type=_MessageHead)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return CheckedMessage(refusal=_no_object(text))
    number = _of(head.id, int | str)
    if head.method == NONE and (head.result != NONE or head.error != NONE):
        return CheckedMessage(id=number)  # an answer to a request of ours
    wrong = _wrong(head, number)
    return CheckedMessage(id=number, refusal=refusal(number, INVALID_REQUEST, wrong) if wrong else None)


def refusal(number: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


def _wrong(head: _MessageHead, number: int | str | None) -> str:
    if _of(head.jsonrpc, str) != "2.0":
        return 'Invalid request: `jsonrpc` is "2.0"'
    if head.id != NONE and number is None:
        return "Invalid request: `id` is a text or a whole number"
    if _of(head.method, str) is None:
        return "Invalid request: `method` is a text"
    if head.params != NONE and bytes(head.params).lstrip()[:1] not in (b"{", b"n"):
        return "Invalid request: `params` is an object"
    return ""


def _no_object(text: bytes | str) -> JSONRPCError:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return refusal(None, PARSE_ERROR, "Parse error: no JSON, or nested too deeply")
    return refusal(None, INVALID_REQUEST, "Invalid request: a message is one JSON object")


def _of(raw: Raw, kind: Any) -> Any:  # noqa: ANN401 -- what the kind says
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
