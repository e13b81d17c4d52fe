"""The protocol of a toolbox: every revision is answered, and nothing that comes makes it fall over."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import BadRequest
from corral.rules.context import tools
from corral.rules.context.tools import McpCall, McpReply, ToolServer

SERVER = ToolServer("corral", "1", "what it is for", tools.list_tools())


def ask(method: str, **parameters: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}).encode()
    (found,), batch = tools.read_message(body, SERVER)
    assert not batch
    return found


def answer(method: str, **parameters: Any) -> dict[str, Any]:
    found = ask(method, **parameters)
    assert isinstance(found, McpReply)
    assert found.body["id"] == 7
    return found.body


@pytest.mark.parametrize("version", tools.HANDSHAKE)
def test_it_speaks_the_revision_that_is_asked_for(version: str) -> None:
    told = answer("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "x", "version": "1"})
    assert told["result"]["protocolVersion"] == version
    assert "resultType" not in answer("tools/list")["result"]


def test_it_offers_its_newest_to_who_wants_another() -> None:
    assert answer("initialize", protocolVersion="1999-01-01")["result"]["protocolVersion"] == tools.HANDSHAKE[0]


def test_it_speaks_the_revision_without_a_handshake() -> None:
    assert tools.MODERN in answer("server/discover")["result"]["supportedVersions"]
    meta = {tools.VERSION_FIELD: tools.MODERN}
    listed = answer("tools/list", _meta=meta)["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    call = ask("tools/call", _meta=meta, name="list_nodes", arguments={})
    assert isinstance(call, McpCall)
    assert tools.call_reply(call, "x").body["result"]["resultType"] == "complete"
    assert answer("tools/list", _meta={tools.VERSION_FIELD: "2031-01-01"})["error"]["code"] == tools.UNSUPPORTED


def test_every_tool_has_a_schema_without_references() -> None:
    for tool in tools.list_tools():
        assert tool.schema["type"] == "object"
        assert tool.description
        assert "$ref" not in json.dumps(tool.schema)
        assert "anyOf" not in json.dumps(tool.schema), "not every provider takes it"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", tools.PARSE),
        (b"\xff", tools.PARSE),
        (b"[" * 100_000, tools.PARSE),
        (b"[]", tools.INVALID),
        (b"{}", tools.INVALID),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', tools.INVALID),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', tools.INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', tools.INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', tools.BAD_PARAMETERS),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', tools.BAD_PARAMETERS),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', tools.NO_METHOD),
        (json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 17).encode(), tools.INVALID),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, code: int) -> None:
    (found,), _ = tools.read_message(body, SERVER)
    assert isinstance(found, McpReply)
    assert found.body["error"]["code"] == code


def test_what_wants_no_answer_gets_none() -> None:
    for body in (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', b'{"jsonrpc":"2.0","id":1,"result":{}}'):
        assert tools.read_message(body, SERVER) == ([], False)


@given(st.binary(max_size=300) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda value: json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": value}).encode()
))  # fmt: skip
def test_nothing_makes_it_fall_over(body: bytes) -> None:
    found, _ = tools.read_message(body, SERVER)
    for each in found:
        json.dumps(each.body if isinstance(each, McpReply) else each.name)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("rm_rf", "{}", "there is no tool `rm_rf`"),
        ("send_mail", "{}", "missing required field `to`"),
        ("send_mail", '{"to": 7, "text": "x"}', "Expected `str`, got `int`"),
        ("send_mail", '{"to": "a", "text": "x", "run": "other"}', "unknown field `run`"),
        ("read_mail", '{"wait_seconds": 1e9}', "<= 45"),
        ("ack_mail", '{"ids": []}', "length >= 1"),
        ("report_progress", '{"text": "x", "percent": NaN}', "report_progress"),
        ("finish", "[" * 10_000, "finish"),
    ],
)
def test_bad_arguments_are_told_in_a_line(name: str, given: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words.replace("[", r"\[").replace("(", r"\(")) as refused:
        tools.arguments(name, given.encode())
    assert "\n" not in str(refused.value)
