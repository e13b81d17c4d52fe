"""`corral mcp`: the engine for other agents, by MCP on stdio."""

from __future__ import annotations

import asyncio
import gc
import sys

import click

from corral.engine.engine import Engine


@click.command()
def mcp() -> int:
    """Serve MCP on stdin and stdout. Your agent starts it.

    Claude Code: claude mcp add corral -- corral mcp
    """
    if sys.stdin.isatty():
        click.echo("this command speaks MCP on stdin and stdout; e.g.: claude mcp add corral -- corral mcp", err=True)
    from corral.frontends.mcp.stdio import serve_stdio  # noqa: PLC0415 -- the protocol takes a while to load

    gc.enable()
    return asyncio.run(serve_stdio(Engine()))
