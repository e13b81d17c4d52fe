"""A client that sends rubbish to MCP is answered, and what it asks next is answered too."""

import http.client
import json
import subprocess
from typing import Any
from urllib.parse import urlsplit

from tests.rig.command import Corral
from tests.rig.server import serving

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
DEEP = '{"jsonrpc": "2.0", "id": 50, "method": "ping", "params": {"a": ' + "[" * 400 + "]" * 400 + "}}"
WRONG: list[tuple[str, int, int | None]] = [
    ("no json", -32700, None),
    ("[" * 100_000, -32700, None),
    ("[]", -32600, None),
    ('{"jsonrpc": "2.0", "id": 11, "method": "ping", "params": [1]}', -32600, 11),
    ('{"jsonrpc": "2.0", "id": 12, "method": "ping", "params": "x"}', -32600, 12),
    ('{"jsonrpc": "2.0", "id": 13, "method": 5}', -32600, 13),
    ('{"jsonrpc": "2.0", "id": 14, "method": null}', -32600, 14),
    ('{"jsonrpc": "1.0", "id": 15, "method": "ping"}', -32600, 15),
    ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
    ('{"jsonrpc": "2.0", "id": 17, "method": "no/such"}', -32601, 17),
    ('{"jsonrpc": "2.0", "id": 18, "method": "tools/call", "params": {"name": "no_such"}}', -32602, 18),
    ('{"jsonrpc": "2.0", "id": 19, "method": "tools/call", "params": {}}', -32602, 19),
]


def asked(corral: Corral, lines: list[str]) -> list[dict[str, Any]]:
    text = "\n".join(["", json.dumps(HELLO), '{"jsonrpc": "2.0", "method": "notifications/initialized"}', *lines, ""])
    done = subprocess.run(
        [*corral.program, "mcp"], input=text.encode(), env=corral.env, cwd=corral.root, capture_output=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_malformed_line_on_stdio_is_answered(corral: Corral) -> None:
    pings = [json.dumps({"jsonrpc": "2.0", "id": 100 + place, "method": "ping"}) for place in range(len(WRONG))]
    answers = asked(corral, [line for pair in zip([line for line, _, _ in WRONG], pings, strict=True) for line in pair])
    errors = [(each["error"]["code"], each["id"]) for each in answers if "error" in each]
    assert sorted(errors, key=str) == sorted([(code, number) for _, code, number in WRONG], key=str)
    assert {each["id"] for each in answers if "result" in each} == {1, *range(100, 100 + len(WRONG))}
    assert [each["id"] for each in asked(corral, [DEEP]) if "error" in each] == [50]


def test_http_answers_alike(corral: Corral) -> None:
    with serving(corral, corral.root, "--rate", "0") as server:
        place = urlsplit(server.address)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        for line, code, number in [each for each in WRONG if each[1] in (-32700, -32600)]:
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
            connection.request("POST", "/mcp", line, {**headers, "Authorization": f"Bearer {server.token}"})
            answer = connection.getresponse()
            told = json.loads(answer.read())
            assert answer.status == 400, (line, told)
            assert (told["error"]["code"], told["id"]) == (code, number), line
            connection.close()


def test_numbers_that_no_limit_can_be_are_refused(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    task = {"path": str(corral.repo().folder), "task": "t", "agents": ["mine"]}
    odd: list[dict[str, object]] = [{"max_tokens": 10**30}, {"max_tokens": 0}, {"max_cost": 1e308}, {"max_cost": -1}]
    lines = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call",
         "params": {"name": "engine_execute", "arguments": {**task, **each}}}
        for number, each in enumerate(odd, 2)
    ]  # fmt: skip
    answers = [each["result"] for each in asked(corral, [json.dumps(line) for line in lines]) if each["id"] != 1]
    assert len(answers) == len(odd)
    for answer in answers:
        assert answer["isError"] is True
        assert "more than 0" in answer["content"][0]["text"]
    assert corral("ls", "--json").json == []
