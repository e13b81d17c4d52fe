"""Codex: its stream as the real program prints it, its endings, its command."""

import json
import tomllib

import pytest

from corral.model import Tokens
from corral.model.events import CalledTool, Changed, Ended, Said, Spent, Started, ToolReturned, Unparsed
from tests.agents.reading import TASK, ended, kind, recorded, start, told


def test_a_whole_recorded_stream() -> None:
    assert told("codex", recorded("codex")) == [
        Started("01a1e17a-3d5a-7d81-ac26-c067fd0a9346"),
        Said("I write it."),
        CalledTool("shell", "/bin/bash -lc \"printf %s 'hello\n' > /w/hello.txt\"", "item_2"),
        ToolReturned("item_2", ok=True, output=""),
        Said("Now a command."),
        CalledTool("shell", "/bin/bash -lc 'echo ran > ran.txt; ls'", "item_4"),
        ToolReturned("item_4", ok=True, output="hello.txt\nran.txt\n"),
        Said("Done."),
        Spent(Tokens(280, 33, 7)),
        Ended(ok=True, text="Done."),
    ]


def test_other_tools() -> None:
    lines = [
        '{"type":"item.started","item":{"id":"i1","type":"file_change","changes":[{"path":"/w/a","kind":"add"}],"status":"in_progress"}}',
        '{"type":"item.completed","item":{"id":"i1","type":"file_change","changes":[{"path":"/w/a","kind":"add"}],"status":"completed"}}',
        '{"type":"item.started","item":{"id":"i2","type":"mcp_tool_call","server":"noter","tool":"note","status":"in_progress"}}',
        '{"type":"item.completed","item":{"id":"i2","type":"mcp_tool_call","server":"noter","tool":"note","error":{"message":"no"},"status":"failed"}}',
        "WARNING: something",
    ]
    assert told("codex", lines)[:-1] == [
        CalledTool("apply_patch", "/w/a", "i1"),
        ToolReturned("i1", ok=True),
        Changed("/w/a"),
        CalledTool("noter.note", "", "i2"),
        ToolReturned("i2", ok=False, output="no"),
        Unparsed("WARNING: something"),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("unexpected status 401 Unauthorized: no, url: http://127.0.0.1/v1/responses", "auth"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("We are currently experiencing high demand, which may cause temporary errors.", "overloaded"),
        ("stream disconnected before completion: Transport error: network error", "network"),
        ("something else", "crash"),
    ],
)
def test_a_failed_turn(message: str, expected: str) -> None:
    assert kind(ended("codex", {"type": "turn.failed", "error": {"message": message}}, code=1)) == expected


def test_ending_with_0_is_not_success() -> None:
    assert kind(ended("codex", {"type": "thread.started", "thread_id": "t"}, code=0)) == "crash"


def test_what_was_declined_is_named() -> None:
    item = {"id": "i", "type": "command_execution", "command": "rm", "status": "declined"}
    end = ended("codex", {"type": "item.completed", "item": item}, {"type": "turn.completed", "usage": {}})
    assert end.denied == ("command_execution",)


def test_the_command() -> None:
    command = start("codex", model="gpt-5")
    assert command.argv[:4] == ("codex", "exec", "-C", "/w")
    assert 'sandbox_mode="danger-full-access"' in command.argv
    assert command.argv[-3:] == ("-m", "gpt-5", "-")
    assert command.stdin == b"do it"
    assert command.env["CODEX_HOME"] == "/home/agent/.codex"
    assert 'sandbox_mode="workspace-write"' in start("codex", boxed=False).argv
    assert 'sandbox_mode="read-only"' in start("codex", boxed=False, read_only=True).argv
    again = start("codex", session="t1").argv
    assert again[:3] == ("codex", "exec", "resume")
    assert again[-2:] == ("t1", "-")


def test_its_settings() -> None:
    plain = tomllib.loads(start("codex").files[".codex/config.toml"].decode())
    assert plain["analytics"] == {"enabled": False}
    assert "model_provider" not in plain
    url = 'http://127.0.0.1:1/v1"quoted'
    own = tomllib.loads(start("codex", {"OPENAI_BASE_URL": url}).files[".codex/config.toml"].decode())
    assert own["model_providers"][own["model_provider"]]["base_url"] == url


def test_nothing_said_and_nothing_done_is_no_success() -> None:
    assert kind(ended("codex", {"type": "turn.completed", "usage": {}})) == "bad_output"


def test_waiting_for_the_network_for_ever_is_an_end_but_it_may_still_come_back() -> None:
    waits = {
        "type": "error",
        "message": "Reconnecting... waiting for network (Connection failed: error sending request)",
    }
    assert kind(ended("codex", waits, waits, waits)) == "network"
    once = [json.dumps(waits), *recorded("codex")]
    assert [event.ok for event in told("codex", once) if isinstance(event, Ended)] == [True]
    twice = [json.dumps(waits), json.dumps(waits), *recorded("codex")]
    assert [event.ok for event in told("codex", twice) if isinstance(event, Ended)] == [False, True]


def test_a_schema_is_a_file_below_home() -> None:
    command = start("codex", schema={"type": "object"})
    assert command.argv[command.argv.index("--output-schema") + 1] == f"{TASK.home}/.codex/output.json"
    assert command.files[".codex/output.json"] == b'{"type":"object"}'
