"""An agent that speaks ACP by the documented contract, for programs that cannot be installed here; standard library alone.

usage: acp_agent.py BEHAVIOUR...   works | cursor | silent | floods
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

BEHAVIOUR = sys.argv[1]


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(what: str, /, **more: object) -> None:
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": what, **more}})


def answer() -> dict[str, str]:
    """Wait for the answer to the question asked last."""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "q":
            return message["result"]["outcome"]
    sys.exit(4)


def work(number: int, folder: str) -> None:
    sys.stdout.write("Debugger attached: this is no JSON\n")
    update("plan", entries=[{"content": "write b.txt", "priority": "high", "status": "in_progress"}])
    command = "echo b > b.txt"
    call = {"toolCallId": "c1", "title": command, "kind": "execute", "rawInput": {"command": command}}
    update("tool_call", status="pending", **call)
    options = [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    asked = {"sessionId": "s1", "toolCall": call, "options": options}
    send(id="q", method="session/request_permission", params=asked)
    allowed = answer().get("optionId") == "allow"
    if allowed:
        subprocess.run(command, shell=True, cwd=folder, check=True)
    update("tool_call_update", toolCallId="c1", status="completed" if allowed else "failed")
    update("agent_message_chunk", content={"type": "text", "text": "Done." if allowed else "I may not."})
    send(id=number, result={"stopReason": "end_turn"})


def main() -> None:
    folder, logged_in = "", BEHAVIOUR != "cursor"
    for line in sys.stdin:
        message = json.loads(line)
        if BEHAVIOUR == "silent":
            continue
        if BEHAVIOUR == "floods":  # and throws its work away when it is told to end
            Path("w.txt").write_text("precious\n")
            signal.signal(signal.SIGTERM, lambda *_: (Path("w.txt").unlink(missing_ok=True), os._exit(1)))
        while BEHAVIOUR == "floods":  # asks, and never reads what it is told
            send(id="q", method="fs/read_text_file", params={"path": "x" * 1000})
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            methods = [{"id": "cursor_login", "name": "Log in"}] if BEHAVIOUR == "cursor" else []
            send(id=number, result={"protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods})
        elif method == "authenticate":
            logged_in = message["params"]["methodId"] == "cursor_login" and bool(os.environ.get("CURSOR_API_KEY"))
            refused = {"code": -32000, "message": "Authentication required"}
            send(id=number, **({"result": {}} if logged_in else {"error": refused}))
        elif method == "session/new" and not logged_in:
            send(id=number, error={"code": -32000, "message": "Authentication required"})
        elif method == "session/new":
            folder = message["params"]["cwd"]
            send(id=number, result={"sessionId": "s1"})
        elif method == "session/prompt":
            work(number, folder)
        elif number is not None:
            send(id=number, error={"code": -32601, "message": "no such method"})


main()
