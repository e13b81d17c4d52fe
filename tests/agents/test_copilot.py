"""GitHub Copilot CLI: its stream as the real program prints it, its endings, its command."""

from typing import Any

import pytest

from corral.model.events import CalledTool, Changed, Ended, Said, Started, ToolReturned
from tests.agents.reading import ended, kind, recorded, start, told

WRITE, RUN = "call_0561f2c9950541e0bb38_0", "call_54ef3f0e5d9542e49617_0"
WELL = {"type": "result", "sessionId": "s", "exitCode": 0, "usage": {"premiumRequests": 0}}


def test_a_whole_recorded_stream() -> None:
    assert told("copilot", recorded("copilot")) == [
        Said("I write it."),
        CalledTool("create", "/w/hello.txt", WRITE),
        ToolReturned(WRITE, ok=True, output="Created file /w/hello.txt with 6 characters"),
        Changed("/w/hello.txt"),
        Said("Now a command."),
        CalledTool("bash", "echo ran > ran.txt; ls", RUN),
        ToolReturned(RUN, ok=True, output="hello.txt\nran.txt\n<shellId: 0 completed with exit code 0>"),
        Said("Done."),
        Started("2a107e8a-04a2-4d8f-95da-083e50e0b1dd"),
        Ended(ok=True, text="Done."),
    ]


def problem(**data: Any) -> dict[str, Any]:
    return {"type": "session.error", "data": data}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (problem(errorType="authentication", message="Authentication failed (HTTP 401).", statusCode=401), "auth"),
        (problem(errorType="rate_limit", message="retried 5 times Last error: 429 no", statusCode=429), "rate_limit"),
        (problem(errorType="query", message="retried 5 times Last error: 500 no", statusCode=500), "overloaded"),
        (problem(message="fetch failed"), "network"),
    ],
)
def test_an_error(line: dict[str, Any], expected: str) -> None:
    assert kind(ended("copilot", line, {**WELL, "exitCode": 1}, code=1)) == expected
    assert kind(ended("copilot", line, WELL)) == expected  # it failed, whatever it ends with
    assert kind(ended("copilot", line, code=1)) == expected


def test_no_result_is_no_success() -> None:
    assert kind(ended("copilot", code=0)) == "crash"
    assert kind(ended("copilot", {**WELL, "exitCode": 3}, code=3)) == "crash"


def test_tools_that_failed() -> None:
    def done(**data: Any) -> dict[str, Any]:
        return {"type": "tool.execution_complete", "data": {"toolCallId": "t", **data}}

    begun = {"type": "tool.execution_start", "data": {"toolCallId": "t", "toolName": "create", "arguments": {}}}
    denied = done(success=False, error={"message": "Permission denied", "code": "denied"})
    assert ended("copilot", begun, denied, WELL).denied == ("create",)
    shell = done(success=True, shellExecution={"exitCode": 3}, result={"content": "no"})
    assert ended("copilot", begun, shell, WELL).denied == ()


def test_the_command() -> None:
    command = start("copilot", model="m", session="s1")
    assert command.stdin == b"do it"
    assert "--allow-all-paths" in command.argv
    assert command.argv[-3:] == ("--model", "m", "--resume=s1")
    assert command.env == {"COPILOT_AUTO_UPDATE": "false"}
    careful = start("copilot", boxed=False, read_only=True).argv
    assert "--allow-all-paths" not in careful
    assert "--deny-tool=write" in careful
    other = start("copilot", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).env
    assert other["COPILOT_PROVIDER_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert other["COPILOT_OFFLINE"] == "true"


def test_nothing_said_and_nothing_done_is_no_success() -> None:
    assert kind(ended("copilot", WELL)) == "bad_output"
