"""MCP servers in the forms in which programs read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct, field

from corral.model.agent_api import McpServer

FILE = ".corral/mcp.json"  #: below HOME; values of variables do not belong into a command line


class ServerFormat(Struct, frozen=True, kw_only=True):
    """The form in which a program reads a server."""

    kind: str = ""  #: what one that is started is called; one that is there already is then called `http`
    key: str = "url"  #: the key of the URL of a running server
    more: Mapping[str, object] = field(default_factory=dict[str, object])  #: added to each


def table(servers: Sequence[McpServer], form: ServerFormat) -> dict[str, object]:
    """Return what most call `mcpServers`."""
    return {server.name: {**_server_table(server, form), **form.more} for server in servers}


def _server_table(server: McpServer, form: ServerFormat) -> dict[str, object]:
    if server.url:
        return {**({"type": "http"} if form.kind else {}), form.key: server.url, "headers": dict(server.headers)}
    started: dict[str, object] = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {"type": form.kind, **started} if form.kind else started


def file(servers: Sequence[McpServer], form: ServerFormat) -> dict[str, bytes]:
    """Return the file that names them, or none."""
    return {FILE: msgspec.json.encode({"mcpServers": table(servers, form)})} if servers else {}
