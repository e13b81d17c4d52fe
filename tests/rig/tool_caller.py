"""An agent that speaks ACP and does with its toolbox what its task says in Python; standard library alone.

usage: tool_caller.py http|stdio
"""

import base64
import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

HTTP = sys.argv[1] == "http"
SERVER: dict[str, Any] = {}


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(text: object) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"{text}\n"}}
    send(method="session/update", params={"sessionId": "s1", "update": chunk})


def headers() -> dict[str, str]:
    return {each["name"]: each["value"] for each in SERVER["headers"]}


def post(body: bytes, fields: dict[str, str] | None = None, method: str = "POST", path: str = "") -> tuple[int, bytes]:
    """Send anything at all to the toolbox."""
    place = urllib.parse.urlsplit(SERVER["url"])
    connection = http.client.HTTPConnection(place.netloc, timeout=100)
    connection.request(method, path or place.path, body, headers() if fields is None else fields)
    answer = connection.getresponse()
    told = answer.status, answer.read()
    connection.close()
    return told


class Bridge:
    """The toolbox as a program, as for agents that know no other."""

    def __init__(self) -> None:
        env = {**os.environ, **{each["name"]: each["value"] for each in SERVER["env"]}}
        argv = [SERVER["command"], *SERVER["args"]]
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def call(tool: str, **arguments: object) -> Any:
    """Call a tool; return its result, or the words by which it was refused."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    answer = json.loads(post(json.dumps(message).encode())[1]) if HTTP else Bridge().ask(message)
    result = answer["result"]
    text = result["content"][0]["text"]
    return text if result["isError"] else json.loads(text)


def write(path: str, content: object) -> None:
    Path(path).write_text(content if isinstance(content, str) else json.dumps(content))


def read_mail(**arguments: object) -> list[Any]:
    """Wait for letters, as long as it takes."""
    while not (letters := call("read_mail", wait_seconds=30, **arguments)["messages"]):
        pass
    return letters


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            able = {"mcpCapabilities": {"http": True}} if HTTP else {}
            send(id=number, result={"protocolVersion": 1, "agentCapabilities": able, "authMethods": []})
        elif method == "session/new":
            os.chdir(message["params"]["cwd"])
            SERVER.update(message["params"]["mcpServers"][-1])
            send(id=number, result={"sessionId": "s1"})
        elif method == "session/prompt":
            text = "".join(part.get("text", "") for part in message["params"]["prompt"])
            kept = Path.home() / "program"  # told to go on, it is not told again what to do
            if found := re.search(r"<<(.*?)>>", text):
                kept.write_bytes(base64.b64decode(found[1]))
            exec(kept.read_text() if kept.exists() else "", {**globals(), "prompt": text, "time": time})
            say("Done.")
            send(id=number, result={"stopReason": "end_turn"})
        elif number is not None:
            send(id=number, error={"code": -32601, "message": "no such method"})


main()
