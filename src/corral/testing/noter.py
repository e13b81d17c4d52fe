"""An MCP server with one tool, `note`: it writes its text, and two variables, to notes.txt in its folder."""

import json
import os
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for what it does not know."""
    match method:
        case "initialize":
            asked = parameters.get("protocolVersion", "2025-06-18")
            about = {"name": "noter", "version": "1"}
            return {"protocolVersion": asked, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": "note", "description": "Append a note", "inputSchema": SCHEMA}]}
        case "tools/call":
            words = parameters["arguments"]["text"] + " " + os.environ.get("COLOUR", "") + os.environ.get("SHAPE", "")
            with Path("notes.txt").open("a", encoding="utf-8") as file:
                file.write(words)
            return {"content": [{"type": "text", "text": "noted"}]}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message.get("method", ""), message.get("params") or {})
        reply = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
