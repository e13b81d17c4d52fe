"""The official schema of ACP, from the npm package that tools/acp pins: what an agent may send."""

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.rig.agents import PROJECT

#: What an agent sends, and what the schema calls its parameters.
CALLS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "$/cancel_request": "CancelRequestNotification",
}
#: What an agent is asked, and what the schema calls its answer.
ANSWERS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "logout": "LogoutResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}


def packages() -> Path:
    """Return the folder of npm packages that speak ACP."""
    known = PROJECT / ".venv" / "acp"
    assert known.exists(), "the ACP packages are not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())


@functools.cache
def schema() -> dict[str, Any]:
    file = packages() / "@agentclientprotocol" / "sdk" / "schema" / "v1" / "schema.json"
    return json.loads(file.read_text())


@functools.cache
def validator(name: str) -> Draft202012Validator:
    definitions = schema()["$defs"]
    assert name in definitions, f"the schema has no {name}"
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


def check(name: str, value: Any) -> None:
    errors = [f"{each.json_path}: {each.message[:300]}" for each in validator(name).iter_errors(value)]
    assert not errors, f"no {name}: {errors}\n{json.dumps(value)[:2000]}"


def check_call(message: dict[str, Any]) -> None:
    """Fail unless a request or notification of the agent is one of the stable protocol."""
    assert message["method"] in CALLS, f"not a call of the stable protocol: {message}"
    check(CALLS[message["method"]], message["params"])


def check_answer(method: str | None, message: dict[str, Any]) -> None:
    """Fail unless an answer has the form that its request asks for."""
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), message
    if "error" in message:
        check("Error", message["error"])
        assert message["error"]["message"].strip()
    elif method in ANSWERS:
        check(ANSWERS[method], message["result"])
