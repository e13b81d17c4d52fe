"""Qwen Code: its stream as the real program prints it, its endings, its command."""

import json

import pytest

from corral.model import Tokens
from corral.model.events import CalledTool, Changed, ContextUsed, Ended, Said, Spent, Started, ToolReturned
from tests.agents.reading import ended, kind, recorded, start, told

WRITE, RUN = "call_7da90305a7fb429c8ef9_0", "call_bb14bea5b24c40f5a8c1_0"


def test_a_whole_recorded_stream() -> None:
    assert told("qwen", recorded("qwen")) == [
        Started("e319a651-7999-45f5-84e3-85f15eee277c", "fake-model", "0.24.4"),
        Said("I write it."),
        ContextUsed(107),
        CalledTool("write_file", "/w/hello.txt", WRITE),
        Spent(Tokens(100, 20, 7)),  # limits are held while it works
        ToolReturned(WRITE, ok=True, output="Successfully created and wrote to new file: /w/hello.txt."),
        Changed("/w/hello.txt"),
        Said("Now a command."),
        ContextUsed(150),
        CalledTool("run_shell_command", "echo ran > ran.txt; ls", RUN),
        Spent(Tokens(250, 30, 7)),
        ToolReturned(RUN, ok=True, output="hello.txt  ran.txt"),
        ContextUsed(30),
        Said("Done."),
        Spent(Tokens(280, 33, 7)),
        Spent(Tokens(280, 33, 7)),
        Ended(ok=True, text="Done."),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[API Error: 401 no]", "auth"),
        ("[API Error: 429 no]\nPossible quota limitations in place.", "rate_limit"),
        ("[API Error: 500 no]", "overloaded"),
        ("[API Error: Connection error.]", "network"),
    ],
)
def test_an_error_in_the_result(message: str, expected: str) -> None:
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True, "error": {"message": message}}
    assert kind(ended("qwen", result, code=1)) == expected


def test_no_result_is_no_success() -> None:
    end = ended("qwen", {"type": "system", "subtype": "init", "session_id": "s"}, code=0)
    assert kind(end) == "crash"
    assert end.error is not None
    assert end.error.message.startswith("qwen ended with 0")


def test_the_command() -> None:
    command = start("qwen", {"AGENT_RETRIES": "1"}, model="m", session="s1")
    assert command.stdin == b"do it"
    for flag, value in (("--approval-mode", "yolo"), ("--auth-type", "openai"), ("--model", "m"), ("--resume", "s1")):
        assert command.argv[command.argv.index(flag) + 1] == value
    written = json.loads(command.files[".qwen/settings.json"])
    assert written["model"]["generationConfig"]["maxRetries"] == 1
    assert written["telemetry"] == {"enabled": False}
    assert "auto-edit" in start("qwen", boxed=False).argv
    assert "write_file,edit,notebook_edit" in start("qwen", read_only=True).argv
    assert "anthropic" in start("qwen", {"QWEN_AUTH_TYPE": "anthropic"}).argv
