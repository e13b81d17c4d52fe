"""The official MCP client speaks with a toolbox's door, in the new way of the protocol and in the old."""

import asyncio
import json
import socket

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from corral.rules.context import mcp, tools
from corral.rules.context.mcp import Answer, Server
from corral.world.proxy.json_rpc import RpcDoor
from corral.world.proxy.secret import Secret

SERVER = Server("corral", "1", "what it is for", tools.listed())
TOKEN = "a-token"


async def answer(body: bytes) -> bytes | None:
    found, _ = mcp.read(body, SERVER)
    told = [each if isinstance(each, Answer) else mcp.returned(each, f"called {each.name}") for each in found]
    return json.dumps(told[0].body).encode() if told else None


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_and_calls(mode: str) -> None:
    async def talk() -> tuple[int, str]:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
        transport = streamable_http_client(url, http_client=web)
        async with RpcDoor(listener, Secret(TOKEN), answer), web, Client(transport, mode=mode) as client:
            listed = await client.list_tools()
            called = await client.call_tool("list_nodes", {})
            return len(listed.tools), str(called.content[0])

    count, told = asyncio.run(talk())
    assert count == len(tools.listed())
    assert "called list_nodes" in told
