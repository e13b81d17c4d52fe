"""`corral mcp` against a bare server of the same SDK: how long until the first answer, and how long a call takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Promise, interleaved

BARE = """
import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, TextContent

async def call(context, params):
    return CallToolResult(content=[TextContent(text="{}")], structured_content={})

async def main():
    server = Server("bare", on_call_tool=call)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""
CALLS = 100


class Server:
    """A server on stdio that has said hello."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._number = process, 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", about)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, object]) -> None:
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout
        answer = json.loads(self._process.stdout.readline())
        assert "result" in answer, answer

    def _write(self, message: dict[str, object]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def serving(argv: list[str], env: dict[str, str]) -> Generator[Server]:
    process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        server = Server(process)
        yield server
        server.end()
    finally:
        process.kill()
        process.wait()


def measure() -> list[Promise]:
    corral = [str(Path(sys.executable).with_name("corral")), "mcp"]
    bare = [sys.executable, "-c", BARE]
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        env = {**os.environ, "CORRAL_HOME": home}

        def start(argv: list[str]) -> None:
            with serving(argv, env):
                pass

        bare_start, start_taken = interleaved(5, lambda: start(bare), lambda: start(corral))
        with serving(bare, env) as plain, serving(corral, env) as ours:
            bare_call, call = interleaved(5, lambda: _calls(plain), lambda: _calls(ours))
    return [
        Promise("corral mcp, until its first answer", "a bare server of the same SDK", start_taken / bare_start, 1.5),
        Promise("a call of engine_list", "a call of a bare server that does nothing", call / bare_call, 3.0),
    ]


def _calls(server: Server) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        server.ask("tools/call", {"name": "engine_list", "arguments": {}})
    return time.perf_counter() - started
