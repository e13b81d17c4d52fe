"""MCP by streamable HTTP, behind a guard that knows who asks: the same tools, two eras, runs that outlive a client."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.test_mcp import done, play
from tests.rig.command import Corral
from tests.rig.mcp import MODES
from tests.rig.processes import gone, running
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
TOKEN = "a-token-of-the-test"


@pytest.fixture
def served(corral: Corral, sleep: str) -> Generator[str]:
    corral.agent("mine", 'echo "$1" > said.txt')
    corral.agent("hanging", f"echo half > half.txt; exec sleep {sleep}")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.mcp_web", TOKEN],
        cwd=PROJECT,
        env=corral.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    try:
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.communicate()


def http() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120, follow_redirects=True)


@pytest.mark.parametrize("mode", MODES)
def test_a_task_over_http(corral: Corral, served: str, mode: str) -> None:
    repo = corral.repo()

    async def work() -> Any:
        async with http() as web, Client(streamable_http_client(served, http_client=web), mode=mode) as client:
            return await done(client, "engine_execute", path=str(repo.folder), task="write", force_runtime="mine")

    run = play(work())
    assert run == corral("show", run["run"], "--json").json
    assert repo.read(run["nodes"][0]["attempts"][0]["commit"], "said.txt")


def test_without_the_token_or_from_another_host_nothing_is_told(served: str) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert httpx2.post(served, json=hello).status_code == 401
    mine = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    assert httpx2.post(served, json=hello, headers={**mine, "Host": "evil.example"}).status_code in (403, 421)
    assert httpx2.post(served, json=hello, headers={**mine, "Origin": "http://evil.example"}).status_code == 403


def test_a_client_that_leaves_stops_what_it_waits_for_and_no_more(corral: Corral, served: str, sleep: str) -> None:
    repo = corral.repo()
    asked = {"path": str(repo.folder), "task": "x", "force_runtime": "hanging"}

    async def leave() -> str:
        async with http() as web, Client(streamable_http_client(served, http_client=web)) as client:
            apart = await done(client, "engine_execute", **asked, background=True)
            call = asyncio.create_task(client.call_tool("engine_execute", asked))
            await asyncio.to_thread(until, lambda: len(running(sleep)) == 2, "both work")
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asyncio.to_thread(until, lambda: len(running(sleep)) == 1, "one is stopped")
            return apart["run"]

    apart = play(leave())
    assert corral("show", apart, "--json").json["status"] == "running"
    assert corral("stop", apart).code == 0
    gone(sleep)
