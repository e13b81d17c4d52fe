"""The Agent Client Protocol, version 1, as it is on the wire: JSON-RPC, one message in each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.model.agent_api import Line, McpServer

VERSION = 1
NO_SUCH_METHOD, BAD_PARAMETERS, LOGIN_NEEDED = -32601, -32602, -32000
MOST_TEXT = 2000


class Camel(Struct, rename="camel"):
    """Base of what the protocol names in camel case."""


class RpcProblem(Struct):
    code: object = 0
    message: str = ""
    data: Raw = Raw(b"")


class Details(Struct):
    details: str = ""
    message: str = ""


class Message(Struct):
    """A request has a method and an id, a notification a method alone, an answer an id alone."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: RpcProblem | None = None


# --- what an agent answers


class Info(Struct):
    version: str | None = None


class McpCapabilities(Struct):
    http: bool = False


class PromptCapabilities(Struct):
    image: bool = False


class Capabilities(Camel):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None


class AuthMethod(Struct):
    id: str = ""


class InitializeReply(Camel):
    protocol_version: int
    agent_capabilities: Capabilities = field(default_factory=Capabilities)
    agent_info: Info | None = None
    auth_methods: list[AuthMethod] = field(default_factory=list[AuthMethod])


class Mode(Struct):
    id: str = ""


class Modes(Camel):
    available_modes: list[Mode] = field(default_factory=list[Mode])


class Model(Camel):
    model_id: str = ""


class Models(Camel):
    current_model_id: str | None = None
    available_models: list[Model] = field(default_factory=list[Model])


class Option(Camel):
    id: str = ""
    category: str | None = None
    current_value: str | bool | None = None
    options: Raw = Raw(b"[]")  #: values, or groups of values


class SessionReply(Camel):
    """The answer to session/new and to session/load."""

    session_id: str | None = None
    modes: Modes | None = None
    models: Models | None = None
    config_options: list[Option] | None = None


class TokenUsage(Camel):
    input_tokens: object = 0
    output_tokens: object = 0
    cached_read_tokens: object = None
    cached_write_tokens: object = None


class Count(Struct):
    input_tokens: object = 0
    output_tokens: object = 0


class QuotaMeta(Struct):
    token_count: Count | None = None


class TurnMeta(Struct):
    quota: QuotaMeta | None = None


class PromptReply(Camel):
    """The answer to session/prompt."""

    stop_reason: str
    usage: TokenUsage | None = None
    meta: Raw = field(name="_meta", default=Raw(b""))


# --- what an agent tells of its own accord


class TextContent(Struct):
    type: str = ""
    text: str = ""


class ContentPiece(Struct):
    """Of what a tool brought forth: text, or a changed file."""

    type: str = ""
    content: TextContent | None = None
    path: str = ""


class Location(Struct):
    path: str = ""


class MoneyAmount(Struct):
    amount: object = 0.0
    currency: str = ""


class PlanStep(Struct):
    content: str = ""
    status: str = "pending"


class Meta(Camel):
    tool_name: str | None = None
    usage: TokenUsage | None = None


class Update(Camel):
    session_update: str = ""
    message_id: str | None = None
    content: Raw = Raw(b"")
    tool_call_id: str = ""
    name: str | None = None
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: Raw = Raw(b"")
    raw_output: Raw = Raw(b"")
    locations: list[Location] | None = None
    entries: list[PlanStep] = field(default_factory=list[PlanStep])
    cost: MoneyAmount | None = None
    used: object = None
    size: object = None
    meta: Raw = field(name="_meta", default=Raw(b""))


class UpdateParameters(Struct):
    update: Update


class PermissionChoice(Camel):
    option_id: str
    name: str = ""
    kind: str = ""


class Permission(Camel):
    tool_call: Update
    options: list[PermissionChoice] = field(default_factory=list[PermissionChoice])


class _WireValue(Struct):
    value: str | None = None
    options: list[_WireValue] = field(default_factory=list["_WireValue"])


MESSAGE = msgspec.json.Decoder(Message)
UPDATED = msgspec.json.Decoder(UpdateParameters)
PERMISSION = msgspec.json.Decoder(Permission)
TURNED = msgspec.json.Decoder(PromptReply)
_META = msgspec.json.Decoder(Meta)
_TURN_META = msgspec.json.Decoder(TurnMeta)
_PIECES = msgspec.json.Decoder(list[ContentPiece])
_TEXT = msgspec.json.Decoder(TextContent)
_DATA = msgspec.json.Decoder(str | Details)
_VALUES = msgspec.json.Decoder(list[_WireValue])


def meta(raw: Raw) -> Meta:
    """Read what programs add of their own; nobody promises what is there."""
    try:
        return decode(_META, raw)
    except UNREADABLE:
        return Meta()


def quota(raw: Raw) -> Count | None:
    try:
        found = decode(_TURN_META, raw).quota
    except UNREADABLE:
        return None
    return found.token_count if found else None


def pieces(raw: Raw) -> list[ContentPiece]:
    try:
        return _PIECES.decode(raw)
    except UNREADABLE:
        return []


def text(raw: Raw) -> str:
    try:
        return _TEXT.decode(raw).text
    except UNREADABLE:
        return ""


def values(option: Option) -> list[str]:
    """List what an option may be set to; some agents put the values into groups."""
    try:
        found = _VALUES.decode(option.options)
    except UNREADABLE:
        return []
    every = [value for each in found for value in (each, *each.options)]
    return [value.value for value in every if value.value is not None]


def problem_words(problem: RpcProblem) -> str:
    """Return a refusal as words: the message, and what its data add to it."""
    raw = bytes(problem.data)
    more = "" if raw in (b"", b"null") else raw.decode(errors="replace")
    try:
        data = _DATA.decode(raw)
        more = data if isinstance(data, str) else data.details or data.message or more
    except UNREADABLE:
        pass  # in a form of its own: passed on unchanged
    return f"{problem.message}: {more}" if more and more != problem.message else problem.message


# --- what we say


def request(number: int, method: str, parameters: dict[str, object]) -> Line:
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})


def notification(method: str, parameters: dict[str, object]) -> Line:
    return _line({"jsonrpc": "2.0", "method": method, "params": parameters})


def answer(number: Raw, result: dict[str, object]) -> Line:
    return _line({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: Raw, code: int, words: str) -> Line:
    return _line({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": words}})


def opening(version: str) -> Line:
    """Return the first words: no files and no terminals of ours, for the agent's own tools are in the box already."""
    offered = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    mine = {"name": "corral", "title": "Corral", "version": version}
    return request(1, "initialize", {"protocolVersion": VERSION, "clientCapabilities": offered, "clientInfo": mine})


def servers(given: Sequence[McpServer], able: McpCapabilities | None) -> list[dict[str, object]]:
    """Return the servers as the agent can take them: those with a URL by it, if it says so."""
    takes_urls = bool(able and able.http)
    return [
        _by_url(server) if server.url and takes_urls else _by_command(server)
        for server in given
        if server.command or takes_urls
    ]


def _by_url(server: McpServer) -> dict[str, object]:
    return {"type": "http", "name": server.name, "url": server.url, "headers": _pairs(server.headers)}


def _by_command(server: McpServer) -> dict[str, object]:
    return {"name": server.name, "command": server.command, "args": list(server.args), "env": _pairs(server.env)}


def _pairs(table: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in table.items()]


def _line(message: dict[str, object]) -> Line:
    return Line(msgspec.json.encode(message).decode())
