"""Real MCP clients at a toolbox's door: the official one, old and new, and requests as OpenCode's runtime sends them."""

import asyncio
import json
import os
import socket
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from corral.rules.context import tools
from corral.rules.context.tools import McpReply, ToolServer
from corral.world.proxy.listener import RpcEndpoint
from corral.world.proxy.secret import SecretValue
from tests.rig.agents import programs

SERVER = ToolServer("corral", "1", "what it is for", tools.list_tools())
TOKEN = "a-token"

#: What an MCP client does when it starts: it asks for a stream, does not read the answer, and calls meanwhile.
ROUNDS = 20
ON_BUN = """
const [url, token, rounds] = process.argv.slice(2);
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept: "text/event-stream" };
const post = async (message) => {
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  if (answer.status === 202) return await answer.body?.cancel();
  return await answer.json();
};
for (let round = 0; round < Number(rounds); round++) {
  await post({ method: "notifications/initialized" });
  const stream = fetch(url, { headers }).then((answer) => answer.body?.cancel());
  await post({ id: 1, method: "tools/list" });
  await stream;
  await post({ id: 2, method: "tools/call", params: { name: "list_nodes", arguments: {} } });
}
console.log("all answered");
"""


async def answer(body: bytes) -> bytes | None:
    found, _ = tools.read_message(body, SERVER)
    told = [each if isinstance(each, McpReply) else tools.call_reply(each, f"called {each.name}") for each in found]
    return json.dumps(told[0].body).encode() if told else None


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_and_calls(mode: str) -> None:
    async def talk() -> tuple[int, str]:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
        transport = streamable_http_client(url, http_client=web)
        async with RpcEndpoint(listener, SecretValue(TOKEN), answer), web, Client(transport, mode=mode) as client:
            listed = await client.list_tools()
            called = await client.call_tool("list_nodes", {})
            return len(listed.tools), str(called.content[0])

    count, told = asyncio.run(talk())
    assert count == len(tools.list_tools())
    assert "called list_nodes" in told


@pytest.mark.slow
def test_opencode_loses_no_call_while_it_is_refused_a_stream(tmp_path: Path) -> None:
    async def talk() -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        (tmp_path / "client.js").write_text(ON_BUN)
        async with RpcEndpoint(listener, SecretValue(TOKEN), answer):
            going = await asyncio.create_subprocess_exec(
                *(programs() / "opencode", tmp_path / "client.js", url, TOKEN, str(ROUNDS)),
                env={**os.environ, "BUN_BE_BUN": "1"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            told, _ = await going.communicate()
        return told.decode()

    assert asyncio.run(talk()) == "all answered\n"
