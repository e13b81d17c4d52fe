"""MCP servers of the client: handed to agents that take them, a program inside the box, a URL where the scope allows it."""

import json
import stat
import sys
from pathlib import Path

from corral.testing import noter
from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor
from tests.rig.repository import Repo

#: An agent that speaks ACP: it starts each server that it is given a command for, and writes down what came of it.
AGENT = """
import json, os, subprocess, sys

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def start(server):
    env = {**os.environ, **{each["name"]: each["value"] for each in server["env"]}}
    words = [server["command"], *server["args"]]
    process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    process.kill()
    return answer["result"]["serverInfo"]["name"]

for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        able = {"mcpCapabilities": {"http": True}}
        send(id=number, result={"protocolVersion": 1, "agentCapabilities": able})
    elif method == "session/new":
        servers = message["params"]["mcpServers"]
        found = {each["name"]: start(each) if "command" in each else each["url"] for each in servers}
        json.dump(found, open("servers.json", "w"))
        json.dump({each["name"]: each.get("headers") for each in servers}, open("headers.json", "w"))
        send(id=number, result={"sessionId": "s1"})
    elif method == "session/prompt":
        print("my token is tok-0123456789abcdef", file=sys.stderr, flush=True)
        said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "tok-0123456789abcdef"}}
        send(method="session/update", params={"sessionId": "s1", "update": said})
        send(id=number, result={"stopReason": "end_turn"})
"""


def test_a_program_starts_in_the_box_and_a_url_needs_the_scope(corral: Corral) -> None:
    repo = corral.repo()
    corral.config('[agents.taker]\ncommand = ["python3", "taker.py"]\noutput = "acp"\ncost_usd = 0.0\n')
    corral.config('[defaults]\nagent = "taker"\n[scope]\nnet = ["tickets.example.org"]\n')
    (corral.config_file.parent / "taker.py").write_text(AGENT)
    server = corral.root / "noter.py"
    server.write_text(Path(noter.__file__).read_text())
    token = {"name": "TICKETS_TOKEN", "value": "tok-0123456789abcdef"}
    servers = [
        {"name": "my noter", "command": sys.executable, "args": [str(server)], "env": [token]},
        {"name": "gone", "command": "/nowhere/server", "args": [], "env": []},
        {"name": "corral", "command": "/usr/bin/corral", "args": ["mcp"], "env": []},
        {"type": "http", "name": "tickets", "url": "https://tickets.example.org/mcp", "headers": [token]},
        {"type": "http", "name": "foreign", "url": "https://foreign.example.org/mcp", "headers": []},
        {"type": "sse", "name": "old", "url": "https://tickets.example.org/sse", "headers": []},
    ]
    with editor(corral) as client:
        assert client.initialize()["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": False}
        session = client.new_session(repo, servers)
        client.reply = choosing("merge")
        assert client.prompt(session, "use them") == "end_turn"
        assert "`gone` is left out: there is no program `/nowhere/server`" in client.said
        assert client.updates("notice") == [], "this client has none"
    found = json.loads((repo.folder / "servers.json").read_text())
    assert found.pop("corral").startswith("http://"), "the toolbox, not the editor's own server of corral"
    assert found == {"my_noter": "noter", "tickets": "https://tickets.example.org/mcp"}
    headers = json.loads((repo.folder / "headers.json").read_text())
    assert headers["tickets"] == [token]
    (run,) = corral("ls", "--json").json
    logs = corral("logs", run["run"]).out
    assert "`foreign` is left out: the scope allows no foreign.example.org" in logs
    assert "tok-0123456789abcdef" not in logs + corral("export", run["run"]).out, "values of servers are not stored"
    kept = corral.home / "client-servers" / f"{run['run']}.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert corral("clean", "--keep", "0").code == 0
    assert not kept.exists()


def test_what_is_odd_is_a_notice_where_the_client_has_them(user: Corral, repo: Repo) -> None:
    gone = {"name": "gone", "command": "/nowhere/server", "args": [], "env": []}
    with editor(user) as client:
        client.initialize({"session": {"notices": {}}})
        session = client.new_session(repo, [gone])
        client.choose(session, merge="never")
        client.prompt(session, "write said.txt")
        (notice,) = client.updates("notice")
        assert "`gone` is left out: there is no program `/nowhere/server`" in notice["title"]
        assert "left out" not in client.said


def test_servers_that_are_none(client: Editor, repo: Repo) -> None:
    refused = client.refused("session/new", cwd=str(repo.folder), mcpServers=[{"name": 3}])
    assert "mcpServers" in refused["message"]
    assert client.request("session/new", cwd=str(repo.folder), mcpServers=[{"name": "x", "command": "", "args": []}])
