"""What a client asks of an agent, as it is on the wire."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from corral.agents.formats.acp.wire import Camel


class SessionName(Camel):
    session_id: str


class Pair(Struct):
    """A variable of a program, or a header of a request."""

    name: str
    value: str


class OfferedServer(Struct):
    """An MCP server that the client offers: by a command, or by a URL."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = field(default_factory=list[str])
    env: list[Pair] = field(default_factory=list[Pair])
    url: str = ""
    headers: list[Pair] = field(default_factory=list[Pair])


class NewSession(Camel):
    cwd: str
    mcp_servers: list[OfferedServer] = field(default_factory=list[OfferedServer])


class OldSession(Camel):
    """The parameters of session/load and session/resume."""

    session_id: str
    cwd: str
    mcp_servers: list[OfferedServer] = field(default_factory=list[OfferedServer])


class ListSessions(Struct):
    cwd: str | None = None
    cursor: str | None = None


class Resource(Camel):
    """A resource that came with the prompt: its text, or bytes as base64."""

    uri: str
    text: str | None = None
    blob: str | None = None


class PromptBlock(Camel):
    """A piece of a prompt."""

    type: str
    text: str = ""
    uri: str | None = None
    name: str = ""
    data: str = ""  #: of an image, as base64
    resource: Resource | None = None


class Prompt(Camel):
    session_id: str
    prompt: list[PromptBlock]


class SetMode(Camel):
    session_id: str
    mode_id: str


class SetModel(Camel):
    session_id: str
    model_id: str


class SetOption(Camel):
    session_id: str
    config_id: str
    value: str | bool


class Authenticate(Camel):
    method_id: str


class CancelRequest(Camel):
    request_id: str | int | None


class PermissionOutcome(Camel):
    outcome: str
    option_id: str | None = None


class PermissionReply(Struct):
    outcome: PermissionOutcome


class ElicitationReply(Struct):
    action: str
    content: dict[str, str | int | float | bool | list[str] | None] | None = None


# --- what a client is able to do


class _Terminal(Struct):
    terminal: bool = False


class _Session(Struct):
    notices: dict[str, object] | None = None


class _Elicitation(Struct):
    form: dict[str, object] | None = None
    url: dict[str, object] | None = None


class ClientCapabilities(Struct):
    auth: _Terminal = field(default_factory=_Terminal)
    session: _Session | None = None
    elicitation: _Elicitation | None = None


class ClientInfo(Struct):
    name: str = "an editor"


class Opening(Camel):
    """The parameters of initialize, as far as they matter to us."""

    client_capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    client_info: ClientInfo | None = None


PERMISSION_REPLY = msgspec.json.Decoder(PermissionReply)
ELICITATION_REPLY = msgspec.json.Decoder(ElicitationReply)


def read_opening(parameters: object) -> Opening:
    """Read what a client says of itself; what is not in the form of the protocol counts as not said."""
    try:
        return msgspec.convert(parameters, Opening)
    except msgspec.ValidationError:
        return Opening()
