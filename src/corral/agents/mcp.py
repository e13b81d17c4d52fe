"""MCP servers in the forms in which programs want to read them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.adapter import McpServer

FILE = ".corral/mcp.json"  #: below HOME; values of variables do not belong into a command line


def table(servers: Sequence[McpServer], *, kind: str = "", key: str = "url", **more: object) -> dict[str, object]:
    """Return what most call `mcpServers`; `more` stands in each.

    `kind` is what a program that is started is called; `key` is where the URL of one that is not stands.
    """
    return {server.name: {**_reached(server, kind, key), **more} for server in servers}


def _reached(server: McpServer, kind: str, key: str) -> dict[str, object]:
    if server.url:
        return {**({"type": "http"} if kind else {}), key: server.url, "headers": dict(server.headers)}
    started: dict[str, object] = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {"type": kind, **started} if kind else started


def file(servers: Sequence[McpServer], kind: str, **more: object) -> dict[str, bytes]:
    """Return the file that names them, or none."""
    return {FILE: msgspec.json.encode({"mcpServers": table(servers, kind=kind, **more)})} if servers else {}
