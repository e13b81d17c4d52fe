"""Who lives how long: runs that a client waits for end with it, background ones do not; cancel, interrupt, floods."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_mcp import done, play
from tests.rig.command import PROGRAM, Corral
from tests.rig.mcp import MODES, connected, told
from tests.rig.processes import gone, running
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

CLIENT = """
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=dict(os.environ))
    async with Client(server) as client:
        await client.call_tool("engine_execute", json.loads(sys.argv[2]))

asyncio.run(main())
"""


@pytest.fixture
def hanging(corral: Corral, sleep: str) -> Corral:
    corral.agent("hanging", f"echo half > half.txt; echo working; exec sleep {sleep}")
    return corral


def sign_for(corral: Corral) -> Path:
    """Return a file that agents in their box will see once it is there."""
    folder = corral.root / "signs"
    folder.mkdir()
    corral.config(f'[scope]\nread = ["**", "{folder}/**"]')
    return folder / "go"


def last(corral: Corral) -> Any:
    return corral("show", "@last", "--json").json


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_ends_with_the_client_that_waits_for_it(hanging: Corral, sent: signal.Signals, sleep: str) -> None:
    repo = hanging.repo()
    asked = json.dumps({"path": str(repo.folder), "task": "x", "force_runtime": "hanging"})
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(PROGRAM), asked], env=hanging.env, cwd=hanging.root)
    try:
        until(lambda: running(sleep), "the agent works")
        client.send_signal(sent)
        gone(sleep)
    finally:
        client.kill()
        client.wait()
    until(lambda: last(hanging)["status"] == "stopped", "the run is over")
    attempt = last(hanging)["nodes"][0]["attempts"][0]
    assert repo.read(attempt["commit"], "half.txt") == "half"


def test_a_background_run_outlives_its_client(corral: Corral) -> None:
    repo, sign = corral.repo(), sign_for(corral)
    agent = corral.agent("patient", f"until [ -e {sign} ]; do sleep 0.1; done; echo x > x.txt")

    async def start() -> Any:
        async with connected(corral) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": agent, "background": True}
            return await done(client, "engine_execute", **asked)

    begun = play(start())
    until(lambda: last(corral)["status"] == "running", "its own process has taken it up")
    assert begun["run"] == last(corral)["run"]
    sign.touch()
    until(lambda: last(corral)["status"] not in ("queued", "running"), "the run is over")
    assert last(corral)["status"] == "done", last(corral)


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_call_stops_its_run(hanging: Corral, mode: str, sleep: str) -> None:
    repo = hanging.repo()

    async def work() -> None:
        async with connected(hanging, mode) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": "hanging"}
            call = asyncio.create_task(client.call_tool("engine_execute", asked))
            await asyncio.to_thread(until, lambda: running(sleep), "the agent works")
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asyncio.to_thread(gone, sleep)
            found = await client.call_tool("engine_result", {"run": "@last", "wait": 60})
            assert found.structured_content["status"] == "stopped"
            assert found.structured_content["nodes"][0]["attempts"][0]["commit"]

    play(work())


def test_two_clients_at_once_and_one_interrupts_the_other(hanging: Corral, sleep: str) -> None:
    repo = hanging.repo()

    async def work() -> None:
        async with connected(hanging) as first, connected(hanging, "legacy") as second:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": "hanging"}
            call = asyncio.create_task(first.call_tool("engine_execute", asked))
            await asyncio.to_thread(until, lambda: running(sleep), "the agent works")
            runs = (await done(second, "engine_list", status=["running"]))["runs"]
            stopped = await done(second, "engine_interrupt", execution_id=runs[0]["run"])
            assert not running(sleep)
            attempt = stopped["nodes"][0]["attempts"][0]
            assert (stopped["status"], attempt["files_changed"]) == ("stopped", ["half.txt"])
            waited = await call
            assert waited.is_error
            assert waited.structured_content["status"] == "stopped"
            again = await done(second, "engine_interrupt", run=runs[0]["run"])
            assert again["status"] == "stopped"

    play(work())


def test_a_run_that_was_cut_off_is_resumed(corral: Corral, sleep: str) -> None:
    repo, sign = corral.repo(), sign_for(corral)
    corral.agent("mine", f"echo x > x.txt; [ -e {sign} ] || exec sleep {sleep}")
    with corral.going("run", "do", "--repo", repo.folder, "--agent", "mine") as going:
        until(lambda: running(sleep), "the agent works")
        going.signal(signal.SIGKILL)
        gone(sleep)
    sign.touch()

    async def work() -> None:
        async with connected(corral) as client:
            assert (await done(client, "engine_resume", run="@last"))["status"] == "done"
            over = await client.call_tool("engine_resume", {"run": "@last"})
            assert over.is_error
            assert "is over" in told(over)
            over = await client.call_tool("engine_resume", {"run": "@last", "background": True})
            assert "is over" in told(over)

    play(work())


def test_a_flood_of_calls_and_too_many_runs(hanging: Corral, sleep: str) -> None:
    repo = hanging.repo()

    async def work() -> None:
        async with connected(hanging) as client:
            looks = await asyncio.gather(*(client.call_tool("engine_list", {}) for _ in range(100)))
            assert not any(look.is_error for look in looks)
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": "hanging"}
            calls = [asyncio.create_task(client.call_tool("engine_execute", asked)) for _ in range(20)]
            over: set[asyncio.Task[Any]] = set()
            while len(over) < 4:
                new, _ = await asyncio.wait(set(calls) - over, return_when=asyncio.FIRST_COMPLETED)
                over |= new
            assert all("16 runs are at work" in told(call.result()) for call in over)
            await asyncio.to_thread(until, lambda: len(running(sleep)) == 16, "all others work")

    play(work())
    gone(sleep)


def test_nothing_but_the_protocol_is_on_stdout(hanging: Corral) -> None:
    """Raw lines, broken ones among them: each answer is one line of JSON, and the server lives on."""
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
    }  # fmt: skip
    lines = [
        json.dumps(hello),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "this is no JSON",
        '{"jsonrpc": "2.0", "id": 2, "method": "no/such"}',
        "[]",
        "\x00\xff" * 50,
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
        "x" * 2_000_000,
        json.dumps(
            {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "engine_list", "arguments": {}}}
        ),
    ]
    server = subprocess.Popen(
        [PROGRAM, "mcp"],
        env=hanging.env,
        cwd=hanging.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdin
    assert server.stdout
    server.stdin.write("".join(line + "\n" for line in lines).encode())
    server.stdin.flush()
    answers: dict[Any, Any] = {}
    while 4 not in answers:
        line = server.stdout.readline()
        assert line, server.stderr.read() if server.stderr else ""
        answer = json.loads(line)
        answers[answer.get("id")] = answer
    rest, _ = server.communicate(timeout=60)
    assert all(json.loads(line) for line in rest.splitlines())
    assert server.returncode == 0
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"
    assert "error" in answers[2]
    assert "error" in answers[3]
    assert answers[4]["result"]["structuredContent"] == {"runs": []}


def test_what_was_asked_before_the_end_of_input_is_answered(corral: Corral) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "engine_list", "arguments": {}}}
          for n in range(1, 20)),
        {"jsonrpc": "2.0", "id": 20, "method": "tools/list"},
    ]  # fmt: skip
    given = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(
        [PROGRAM, "mcp"], input=given, capture_output=True, text=True, env=corral.env, cwd=corral.root, check=True
    )
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == list(range(21))
