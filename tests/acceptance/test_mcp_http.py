"""MCP by streamable HTTP at /mcp of `corral serve`: the same tools, two eras, by token and scope, from outside."""

import asyncio
import http.client
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from corral.testing import ScriptedModel
from tests.acceptance.test_mcp import done, play
from tests.acceptance.test_mcp_clients import check, program, turns
from tests.rig.agents import inspector
from tests.rig.command import Corral
from tests.rig.mcp import MODES, Person, told
from tests.rig.processes import gone, running
from tests.rig.repository import Repo
from tests.rig.server import Server, serving
from tests.rig.suites import claude_program
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server(corral: Corral, sleep: str) -> Iterator[Server]:
    corral.agent("mine", 'echo "$1" > said.txt')
    corral.agent("hanging", f"echo half > half.txt; exec sleep {sleep}")
    with serving(corral, corral.root, "--rate", "0") as going:
        yield going


@asynccontextmanager
async def connected(
    server: Server, mode: str = "auto", *, token: str = "", person: Person | None = None
) -> AsyncGenerator[Client]:
    """Connect as the official SDK does."""
    headers = {"Authorization": f"Bearer {token or server.token}"}
    asked = person.asked if person else None
    async with httpx2.AsyncClient(headers=headers, timeout=120, follow_redirects=True) as web:
        transport = streamable_http_client(f"{server.address}/mcp", http_client=web)
        async with Client(transport, mode=mode, elicitation_callback=asked) as client:
            yield client


def post(server: Server, send: Any, token: str | None = "", **headers: str) -> Any:
    return server.ask("POST", "/mcp", send, token=token, headers={**JSON, **headers})


@pytest.mark.parametrize("mode", MODES)
def test_a_task_over_http(server: Server, repo: Repo, mode: str) -> None:
    heard: list[str] = []
    person = Person("yes")
    (repo.folder / "flow.yaml").write_text(
        "name: f\nnodes:\n  ok: {gate: 'Go?'}\n  a: {task: x, agent: mine, needs: [ok]}\n"
    )

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        assert progress > 0
        assert total is None
        heard.append(message or "")

    async def work() -> tuple[Any, Any]:
        async with connected(server, mode, person=person) as client:
            assert len((await client.list_tools()).tools) == 19
            asked = {"path": str(repo.folder), "task": "write", "force_runtime": "mine"}
            result = await client.call_tool("engine_execute", asked, progress_callback=tell)
            assert not result.is_error, told(result)
            run = result.structured_content
            assert run
            document = await client.read_resource(f"corral://runs/{run['run']}")
            assert json.loads(document.contents[0].text) == run  # type: ignore[union-attr]
            flow = await done(client, "engine_flow", action="run", path=str(repo.folder), file="flow.yaml")
            return run, flow

    run, flow = play(work())
    assert run == server.corral("show", run["run"], "--json").json
    assert repo.read(run["nodes"][0]["attempts"][0]["commit"], "said.txt")
    assert heard
    assert (flow["status"], len(person.questions)) == ("done", 1)
    entry = server.ask("GET", "inbox?all=true").json[-1]
    assert entry["answered_by"].startswith("token first by ")


def test_nothing_for_those_who_are_not_known(server: Server) -> None:
    refused = post(server, HELLO, token=None)
    assert (refused.status, refused.json["code"]) == (401, "no_token")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert post(server, HELLO, token="corral_wrong").status == 401
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.address}
    cookie = server.ask("POST", "/login", f"token={server.token}".encode(), token=None, headers=form)
    login = cookie.headers["Set-Cookie"].partition(";")[0]
    assert post(server, HELLO, token=None, Cookie=login).json["code"] == "no_token"
    assert post(server, HELLO, Host="evil.example").status == 421
    assert post(server, HELLO, Origin="https://evil.example").status == 403
    assert post(server, b"x" * (2 << 20)).status == 413
    assert post(server, b"{no json").status == 400


def test_what_one_token_began_is_not_for_another(server: Server) -> None:
    other = server.corral("token", "new", "--scope", "admin").out.strip()
    opened = post(server, HELLO)
    assert opened.status == 200, opened
    mine = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], "Mcp-Protocol-Version": "2025-06-18"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert post(server, ping, token=other, **mine).status == 404
    assert post(server, ping, **mine).status == 200
    assert server.ask("DELETE", "/mcp", token=other, headers=mine).status == 404
    assert server.ask("DELETE", "/mcp", headers=mine).status == 200
    assert post(server, ping, **mine).status == 404


def test_each_tool_needs_its_scope_and_stays_in_the_roots(server: Server, repo: Repo, tmp_path: Path) -> None:
    here = str(repo.folder)
    outside = Repo.make(tmp_path.parent / f"{tmp_path.name}-outside").folder
    reads, runs = (server.corral("token", "new", "--scope", scope).out.strip() for scope in ("read", "run"))
    landing = "name: f\nnodes:\n  ok: {gate: 'Go?'}\n  land: {merge: {into: main}, needs: [ok]}\n"
    (repo.folder / "good.yaml").write_text("name: f\nnodes:\n  a: {task: x, agent: mine}\n")

    async def work() -> None:
        async with connected(server) as client:
            run = (await done(client, "engine_execute", path=here, task="x", force_runtime="mine"))["run"]
            for path in (str(outside), "/etc", "..", f"{here}/../..", "/nowhere/at/all"):
                result = await client.call_tool("engine_execute", {"path": path, "task": "x", "force_runtime": "mine"})
                assert result.is_error
                assert "is not among those that this server may use" in told(result)
            for more in ({"files": ["/etc/passwd"]}, {"agents": ["replay:/etc/passwd"]}):
                result = await client.call_tool("engine_execute", {"path": here, "task": "x", **more})
                assert result.is_error, more
                assert "hint: " in told(result)
            into = await client.call_tool("engine_merge", {"run": run, "into": "--force"})
            assert "is not a branch" in told(into)
        looks = (("engine_status", {}), ("engine_list", {}), ("engine_budget", {}), ("engine_output", {"run": run}),
                 ("engine_merge", {"run": run, "action": "preview"}), ("engine_select", {"run": run}),
                 ("engine_flow", {"action": "check", "path": here, "file": "good.yaml"}))  # fmt: skip
        acts = (("engine_execute", {"path": here, "task": "x"}), ("engine_interrupt", {"run": run}), ("engine_resume", {"run": run}),
                ("engine_steer", {"run": run, "text": "x"}), ("engine_answer", {"id": "1", "answer": "yes"}),
                ("engine_select", {"run": run, "attempt": "1"}), ("engine_flow", {"action": "run", "path": here, "file": "good.yaml"}))  # fmt: skip
        lands = (("engine_merge", {"run": run}), ("engine_merge", {"run": run, "action": "undo"}), ("engine_budget", {"max_cost": 1}),
                 ("engine_budget", {"action": "reset"}), ("engine_flow", {"action": "run", "path": here, "flow": landing}))  # fmt: skip
        async with connected(server, token=reads) as client:
            for tool, arguments in looks:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, (tool, told(result))
            for tool, arguments in (*acts, *lands):
                result = await client.call_tool(tool, arguments)
                assert "lacks the scope" in told(result), (tool, arguments)
        async with connected(server, token=runs) as client:
            for tool, arguments in lands:
                result = await client.call_tool(tool, arguments)
                assert "lacks the scope" in told(result), (tool, arguments)

    play(work())
    assert len(server.client.runs().runs) == 1


def test_a_client_that_leaves_stops_what_it_waits_for_and_no_more(server: Server, repo: Repo, sleep: str) -> None:
    asked = {"path": str(repo.folder), "task": "x", "force_runtime": "hanging"}

    async def leave() -> str:
        async with connected(server) as client:
            apart = await done(client, "engine_execute", **asked, background=True)
            call = asyncio.create_task(client.call_tool("engine_execute", asked))
            await asyncio.to_thread(until, lambda: len(running(sleep)) == 2, "both work")
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asyncio.to_thread(until, lambda: len(running(sleep)) == 1, "one is stopped")
            return apart["run"]

    apart = play(leave())
    assert server.client.show(apart).status == "running"
    assert server.client.stop(apart).status == "stopped"
    gone(sleep)


def test_a_server_that_ends_leaves_what_clients_wait_for_to_the_next(corral: Corral, repo: Repo, sleep: str) -> None:
    sign = corral.root / "signs" / "go"
    sign.parent.mkdir()
    corral.config(f'[scope]\nread = ["**", "{sign.parent}/**"]')
    corral.agent("patient", f"if [ -e {sign} ]; then echo x > x.txt; else exec sleep {sleep}; fi")
    with serving(corral, corral.root) as first:
        connection = http.client.HTTPConnection("127.0.0.1", first.port, timeout=60)
        call = {"path": str(repo.folder), "task": "x", "force_runtime": "patient"}
        opened = post(first, HELLO)
        headers = {**JSON, "Authorization": f"Bearer {first.token}", "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        asked = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "engine_execute", "arguments": call},
        }
        connection.request("POST", "/mcp", json.dumps(asked).encode(), headers)
        until(lambda: running(sleep), "it works")
        assert first.end() == 0
        connection.close()
    gone(sleep)
    sign.touch()
    with serving(corral, corral.root) as second:
        until(lambda: second.client.show("@last").status == "done", "the next server goes on with it")


# --- real programs


def test_claude_code_over_http(server: Server, repo: Repo) -> None:
    claude = claude_program()
    with ScriptedModel(turns("mcp__corral__{}", repo)) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-fake"}
        token = server.corral("token", "new", "--scope", "run", "--scope", "merge").out.strip()
        header = f"Authorization: Bearer {token}"
        add = ("mcp", "add", "--transport", "http", "corral", f"{server.address}/mcp", "--header", header)
        program(server.corral, repo, claude, *add, **env)
        assert "Connected" in program(server.corral, repo, claude, "mcp", "list", **env)
        tools = ",".join(f"mcp__corral__engine_{name}" for name in ("execute", "diff", "merge"))
        options = ("--model", "claude-sonnet-4-5", "--max-turns", "8", "--allowedTools", tools)
        assert "All is landed." in program(server.corral, repo, claude, "-p", "Do the work", *options, **env)
        check(server.corral, repo, model)


def test_the_inspector_over_http(server: Server, repo: Repo) -> None:
    header = f"Authorization: Bearer {server.token}"
    asks = [inspector(), "--cli", f"{server.address}/mcp", "--transport", "http", "--header", header]
    assert len(json.loads(program(server.corral, repo, *asks, "--method", "tools/list"))["tools"]) == 19
    arguments = (f"path={repo.folder}", "task=write it", "force_runtime=mine")
    options = [word for each in arguments for word in ("--tool-arg", each)]
    called = program(server.corral, repo, *asks, "--method", "tools/call", "--tool-name", "engine_execute", *options)
    assert json.loads(called)["structuredContent"] == server.corral("show", "@last", "--json").json
