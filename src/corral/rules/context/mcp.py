"""The Model Context Protocol as far as a server of tools speaks it: messages in, answers or calls out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from corral.rules.context import tools

MODERN = "2026-07-28"  #: no handshake: each request says which revision it speaks
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSION_FIELD = "io.modelcontextprotocol/protocolVersion"
MOST_BATCH = 16

PARSE, INVALID, NO_METHOD, BAD_PARAMETERS, UNSUPPORTED = -32700, -32600, -32601, -32602, -32022

Id = str | int


class _RpcMessage(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: str | UnsetType = UNSET
    id: Id | UnsetType | None = UNSET
    params: Raw = Raw(b"{}")


class _CallParameters(Struct, frozen=True):
    name: str
    arguments: Raw = Raw(b"{}")


class _Hello(Struct, frozen=True, rename="camel"):
    protocol_version: str = ""


class _Meta(Struct, frozen=True):
    version: str = msgspec.field(default="", name=VERSION_FIELD)


class _Parameters(Struct, frozen=True):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


class McpCall(Struct, frozen=True):
    """A tool is to be called; its answer is made with `returned`."""

    id: Id
    name: str
    arguments: bytes
    modern: bool


class McpReply(Struct, frozen=True):
    """What goes back at once."""

    body: dict[str, Any]


class Server(Struct, frozen=True):
    """What a server says of itself."""

    name: str
    version: str
    instructions: str
    offered: Sequence[tools.ToolListing]


def read(body: bytes, server: Server) -> tuple[list[McpCall | McpReply], bool]:
    """Return what a body asks for, and whether it was a batch; nothing for what wants no answer."""
    try:
        messages = msgspec.json.decode(body, type=list[Raw]) if body.lstrip()[:1] == b"[" else [Raw(body)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [error_reply(None, PARSE, "no JSON")], False
    if not 0 < len(messages) <= MOST_BATCH:
        return [error_reply(None, INVALID, f"a batch of 1 to {MOST_BATCH} messages")], False
    batch = body.lstrip()[:1] == b"["
    return [found for message in messages if (found := _one(message, server)) is not None], batch


def _one(raw: Raw, server: Server) -> McpCall | McpReply | None:
    try:
        message = msgspec.json.decode(raw, type=_RpcMessage)
    except msgspec.ValidationError:
        return error_reply(None, INVALID, "no message of JSON-RPC 2.0")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return error_reply(None, PARSE, "no JSON")
    if message.method is UNSET or message.id is UNSET or message.id is None:
        return None  # a notification, or an answer to something that was never asked
    try:
        return _answer_request(message.id, message.method, message.params, server)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return error_reply(message.id, BAD_PARAMETERS, f"{message.method[:80]}: these are no parameters of it")


def _answer_request(asked: Id, method: str, parameters: Raw, server: Server) -> McpCall | McpReply:
    version = msgspec.json.decode(parameters, type=_Parameters | None) or _Parameters()
    modern = version.meta.version == MODERN
    if version.meta.version and not modern and version.meta.version not in HANDSHAKE:
        data = {"supported": [MODERN, *HANDSHAKE], "requested": version.meta.version}
        return error_reply(asked, UNSUPPORTED, "a revision of the protocol that is not known here", data)
    about = {"name": server.name, "version": server.version}
    said: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": about, "instructions": server.instructions}
    match method:
        case "initialize":
            hello = msgspec.json.decode(parameters, type=_Hello)
            chosen = hello.protocol_version if hello.protocol_version in HANDSHAKE else HANDSHAKE[0]
            return _result(asked, {"protocolVersion": chosen, **said})
        case "server/discover":
            return _result(asked, {"supportedVersions": [MODERN, *HANDSHAKE], **said, **_lasting()}, modern=True)
        case "ping":
            return _result(asked, {}, modern=modern)
        case "tools/list":
            offered = msgspec.to_builtins(server.offered)
            return _result(asked, {"tools": offered, **(_lasting() if modern else {})}, modern=modern)
        case "tools/call":
            call = msgspec.json.decode(parameters, type=_CallParameters)
            return McpCall(asked, call.name, bytes(call.arguments), modern)
        case _:
            return error_reply(asked, NO_METHOD, "no such method")


def _lasting() -> dict[str, Any]:
    """Tell a client how long it may keep a list: it does not change while the attempt lasts."""
    return {"ttlMs": 3_600_000, "cacheScope": "private"}


def call_reply(call: McpCall, text: str, *, failed: bool = False) -> McpReply:
    """Make the answer to a call."""
    content = [{"type": "text", "text": text}]
    return _result(call.id, {"content": content, "isError": failed}, modern=call.modern)


def _result(asked: Id, result: dict[str, Any], *, modern: bool = False) -> McpReply:
    whole = {**result, "resultType": "complete"} if modern else result
    return McpReply({"jsonrpc": "2.0", "id": asked, "result": whole})


def error_reply(asked: Id | None, code: int, words: str, data: object = None) -> McpReply:
    error = {"code": code, "message": words, **({"data": data} if data is not None else {})}
    return McpReply({"jsonrpc": "2.0", "id": asked, "error": error})
