"""The answer to `initialize`; it needs nothing but this file, so that it comes before anything else is loaded."""

from __future__ import annotations

from corral.version import __version__

TYPE_CHECKING = False  # as typing's, which is slower to import than all of this
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
BAD_PARAMETERS = -32602
AGENT_LOGIN, TERMINAL_LOGIN = "corral", "corral-setup"


def reply(number: object, parameters: object) -> dict[str, object]:
    """Return the whole answer to a request `initialize`; a client with another version gets ours."""
    asked: Any = parameters
    version: object = asked.get("protocolVersion") if isinstance(parameters, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 65535:
        words = "initialize: protocolVersion is a whole number; this agent speaks version 1"
        return {"jsonrpc": "2.0", "id": number, "error": {"code": BAD_PARAMETERS, "message": words}}
    return {"jsonrpc": "2.0", "id": number, "result": _result(asked.get("clientCapabilities"))}


def _result(client: object) -> dict[str, object]:
    return {
        "protocolVersion": VERSION,
        "agentInfo": {"name": "corral", "title": "Corral", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            "auth": {"logout": {}},
        },
        "authMethods": _logins(client),
        "_meta": {"steering": {"supported": True}},
    }


def _logins(client: object) -> list[dict[str, object]]:
    """List the ways to log in; the terminal's only where the client has terminals for that."""
    agents: dict[str, object] = {
        "id": AGENT_LOGIN,
        "name": "Agents set up on this machine",
        "description": "Corral runs the agents you are logged in to; `corral doctor` shows them.",
    }
    auth: Any = client.get("auth") if isinstance(client, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not (isinstance(auth, dict) and auth.get("terminal") is True):  # pyright: ignore[reportUnknownMemberType]
        return [agents]
    words = "Run `corral doctor` in a terminal and choose a default agent."
    terminal: dict[str, object] = {
        "id": TERMINAL_LOGIN,
        "type": "terminal",
        "name": "Set up in a terminal",
        "description": words,
        "args": ["--setup"],
    }
    return [agents, terminal]
