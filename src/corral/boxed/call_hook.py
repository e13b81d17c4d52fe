"""Before an agent calls a tool: asks the user's rules whether it may, and stops the call where they say no.

It runs in the box by itself: the standard library is all it needs.
"""

import http.client
import json
import sys
import urllib.parse

SECONDS = 50.0
REFUSED = 2  #: the exit code that makes an agent leave a call out; it reads the reason on stderr


def refusal(place: str, tool: str, arguments: object) -> str:
    """Return why a call may not be made; nothing where it may. `place` is the file that names the toolbox."""
    try:
        with open(place, encoding="utf-8") as file:  # noqa: PTH123 -- started for each call: pathlib takes time
            toolbox = json.load(file)
        return _ask(toolbox["url"], toolbox["token"], {"tool": tool, "arguments": arguments})
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        return f"[policy] cannot be asked ({type(error).__name__}), so `{tool}` is refused"


def _ask(url: str, token: str, call: dict[str, object]) -> str:
    parts = urllib.parse.urlsplit(url)
    parameters = {"name": "check_call", "arguments": call}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
    connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
    try:
        fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", parts.path, json.dumps(message).encode(), fields)
        answered = connection.getresponse()
        body = answered.read()
        if answered.status >= 400:
            raise OSError(answered.status)
        result = json.loads(body)["result"]
        return str(result["content"][0]["text"]) if result["isError"] else ""
    finally:
        connection.close()


def main() -> int:
    """Judge the call on stdin, in the form that claude, codex and gemini share."""
    try:
        asked = json.loads(sys.stdin.buffer.read())
        tool, arguments = str(asked["tool_name"]), asked.get("tool_input")
    except (ValueError, KeyError, TypeError, AttributeError):
        sys.stderr.write("[policy] cannot read this call, so it is refused\n")
        return REFUSED
    words = refusal(sys.argv[1], tool, arguments)
    if words:
        sys.stderr.write(f"{words}\n")
    return REFUSED if words else 0


if __name__ == "__main__":
    sys.exit(main())
