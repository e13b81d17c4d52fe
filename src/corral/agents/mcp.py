"""MCP servers in the forms in which programs want to read them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.adapter import McpServer

FILE = ".corral/mcp.json"  #: below HOME; values of variables do not belong into a command line


def table(servers: Sequence[McpServer], **more: object) -> dict[str, object]:
    """Return what most call `mcpServers`; `more` stands in each."""
    return {
        server.name: {"command": server.command, "args": list(server.args), "env": dict(server.env), **more}
        for server in servers
    }


def file(servers: Sequence[McpServer], **more: object) -> dict[str, bytes]:
    """Return the file that names them, or none."""
    return {FILE: msgspec.json.encode({"mcpServers": table(servers, **more)})} if servers else {}
