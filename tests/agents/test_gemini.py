"""Gemini CLI: its stream as the real program prints it, its endings, its command."""

import json

import pytest

from corral.model import Tokens
from corral.model.events import CalledTool, Changed, Ended, Said, Spent, Started, ToolReturned
from tests.agents.reading import ended, kind, recorded, start, told

WRITE, RUN = "write_file__call_4c5935e1faa341aa8949_0", "run_shell_command__call_c49b03e5816d45f193b1_0"


def test_a_whole_recorded_stream() -> None:
    assert told("gemini", recorded("gemini")) == [
        Started("855d94c9-1915-491b-8dc2-33dd9c575834", "gemini-2.5-flash"),
        Said("I write it."),
        CalledTool("write_file", "/w/hello.txt", WRITE),
        ToolReturned(WRITE, ok=True, output=""),
        Changed("/w/hello.txt"),
        Said("Now a command."),  # it came in pieces
        CalledTool("run_shell_command", "echo ran > ran.txt; ls", RUN),
        ToolReturned(RUN, ok=True, output="hello.txt\nran.txt"),
        Said("Done."),
        Spent(Tokens(280, 33, 7)),
        Ended(ok=True, text="Done."),
    ]


@pytest.mark.parametrize(
    ("message", "code", "expected"),
    [
        ('[API Error: {"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}]', 145, "auth"),
        ("[API Error: no]\nPlease wait and try again later, or switch to another /auth method", 173, "rate_limit"),
        ("[API Error: no]", 244, "overloaded"),
        ("[API Error: terminated]", 0, "network"),  # a stream that was cut
        ("something else", 1, "crash"),
    ],
)
def test_an_error_in_the_result(message: str, code: int, expected: str) -> None:
    result = {"type": "result", "status": "error", "error": {"type": "unknown", "message": message}, "stats": {}}
    assert kind(ended("gemini", result, code=code)) == expected


def test_ending_with_0_is_not_success() -> None:
    assert kind(ended("gemini", {"type": "init", "session_id": "s"}, code=0)) == "crash"  # so it ends on SIGTERM


def test_no_login_is_told() -> None:
    stderr = "Please set an Auth method in your /home/agent/.gemini/settings.json or specify GEMINI_API_KEY\n"
    assert kind(ended("gemini", code=41, stderr=stderr)) == "auth"


def test_a_tool_that_was_not_allowed_is_named() -> None:
    end = ended(
        "gemini",
        {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "t", "parameters": {"command": "ls"}},
        {
            "type": "tool_result",
            "tool_id": "t",
            "status": "error",
            "error": {"type": "policy_violation", "message": "no"},
        },
        {"type": "result", "status": "success", "stats": {}},
    )
    assert end.ok
    assert end.denied == ("run_shell_command",)


def test_the_command() -> None:
    command = start("gemini", model="gemini-2.5-flash", session="s1")
    assert command.stdin == b"do it"
    for flag, value in (("--approval-mode", "yolo"), ("-m", "gemini-2.5-flash"), ("--resume", "s1")):
        assert command.argv[command.argv.index(flag) + 1] == value
    unboxed = start("gemini", boxed=False).argv
    assert unboxed[unboxed.index("--approval-mode") + 1] == "auto_edit"
    assert "plan" in start("gemini", read_only=True).argv


@pytest.mark.parametrize(
    ("settings", "kind_of_login"),
    [
        ({}, "gemini-api-key"),
        ({"GOOGLE_GENAI_USE_GCA": "true"}, "oauth-personal"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai"),
    ],
)
def test_its_settings(settings: dict[str, str], kind_of_login: str) -> None:
    written = json.loads(start("gemini", settings).files[".gemini/settings.json"])
    assert written["security"]["auth"]["selectedType"] == kind_of_login
    assert written["telemetry"] == {"enabled": False}


def test_nothing_said_and_nothing_done_is_no_success() -> None:
    assert kind(ended("gemini", {"type": "result", "status": "success", "stats": {}})) == "bad_output"
