"""Every message that is no JSON-RPC gets its error; every one that is gets none."""

import json

import pytest

from corral.frontends.mcp.stdio import vet

DEEP = "[" * 100_000 + "]" * 100_000
WRONG: dict[str, tuple[int, int | str | None]] = {
    "{": (-32700, None),
    "no json": (-32700, None),
    "\x00": (-32700, None),
    DEEP: (-32700, None),
    "[": (-32700, None),
    '{"jsonrpc": "2.0", "id": 1, "method": "ping"} trailing': (-32700, None),
    "[]": (-32600, None),
    '[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]': (-32600, None),
    "5": (-32600, None),
    "null": (-32600, None),
    '{"jsonrpc": "2.0", "id": 3, "method": "x", "params": [1]}': (-32600, 3),
    '{"jsonrpc": "2.0", "id": "a", "method": "x", "params": "text"}': (-32600, "a"),
    '{"jsonrpc": "2.0", "id": 3, "method": 5}': (-32600, 3),
    '{"jsonrpc": "2.0", "id": 3, "method": null}': (-32600, 3),
    '{"jsonrpc": "1.0", "id": 3, "method": "ping"}': (-32600, 3),
    '{"id": 3, "method": "ping"}': (-32600, 3),
    '{"jsonrpc": "2.0", "id": 3}': (-32600, 3),
    '{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}': (-32600, None),
    '{"jsonrpc": "2.0", "id": true, "method": "ping"}': (-32600, None),
    '{"jsonrpc": "2.0", "id": null, "method": "ping"}': (-32600, None),
    '{"jsonrpc": "2.0", "id": {}, "method": "ping"}': (-32600, None),
    "{}": (-32600, None),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_gets_its_code_and_its_id(text: str) -> None:
    refusal = vet(text).refusal
    assert refusal is not None
    assert (refusal.error.code, refusal.id) == WRONG[text]
    assert json.loads(refusal.model_dump_json(exclude_unset=True))["id"] == WRONG[text][1]


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": null}',
        '{"method": "tools/call", "params": {"a": [1]}, "id": 9, "jsonrpc": "2.0", "more": 1}',
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 1, "result": {}}',
        '{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}',
    ],
)
def test_messages_pass(text: str) -> None:
    assert vet(text).refusal is None
    assert vet(text.encode()).refusal is None
