"""pi: its stream as the real program prints it, its endings, its command."""

import json
from typing import Any

import pytest

from corral.model import Tokens
from corral.model.errors import BadRequest
from corral.model.events import CalledTool, Changed, Ended, Said, Spent, Started, ToolReturned
from tests.agents.reading import ended, kind, recorded, start, told

WRITE, RUN = "call_96c28b6fed71404386d7_0", "call_4430e5b942ef40219617_0"
OVER = {"type": "agent_end"}


def test_a_whole_recorded_stream() -> None:
    assert told("pi", recorded("pi")) == [
        Started("01a1e189-f023-73c5-83b3-a829ae707390"),
        Said("I write it."),
        Spent(Tokens(100, 20, 7)),
        CalledTool("write", "/w/hello.txt", WRITE),
        ToolReturned(WRITE, ok=True, output="Successfully wrote 6 bytes to /w/hello.txt"),
        Changed("/w/hello.txt"),
        Said("Now a command."),
        Spent(Tokens(250, 30, 7)),
        CalledTool("bash", "echo ran > ran.txt; ls", RUN),
        ToolReturned(RUN, ok=True, output="hello.txt\nran.txt\n"),
        Said("Done."),
        Spent(Tokens(280, 33, 7)),
        Ended(ok=True, text="Done."),
    ]


def said(reason: str, error: str | None = None, cost: float = 0.0) -> dict[str, Any]:
    usage = {"input": 1, "output": 2, "cost": {"total": cost}}
    return {
        "type": "message_end",
        "message": {"role": "assistant", "content": "so", "usage": usage, "stopReason": reason, "errorMessage": error},
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("401 no", "auth"),
        ("429 no", "rate_limit"),
        ("500 no", "overloaded"),
        ("Connection error.", "network"),
        (None, "crash"),
    ],
)
def test_it_ends_with_0_whatever_happened(message: str | None, expected: str) -> None:
    assert kind(ended("pi", said("error", message), OVER, code=0)) == expected


def test_after_an_error_it_may_go_on() -> None:
    assert ended("pi", said("error", "500 no"), said("stop"), OVER).ok


@pytest.mark.parametrize(("reason", "expected"), [("toolUse", "crash"), ("length", "bad_output"), ("aborted", "crash")])
def test_a_last_message_that_is_none(reason: str, expected: str) -> None:
    assert kind(ended("pi", said(reason), OVER)) == expected


def test_cut_off_before_its_end() -> None:
    assert kind(ended("pi", said("stop"), code=0)) == "crash"


def test_its_cost_is_summed() -> None:
    lines = [json.dumps(said(reason, cost=0.5)) for reason in ("toolUse", "stop")]
    assert Spent(Tokens(2, 4), 1.0) in told("pi", lines)


def test_the_command() -> None:
    command = start("pi", model="anthropic/opus", session="s1")
    assert command.stdin == b"do it"
    assert command.argv == (
        "pi", "-p", "--mode", "json", "--provider", "anthropic", "--model", "opus", "--session", "s1",
    )  # fmt: skip
    assert command.files == {}
    assert "read,grep,find,ls" in start("pi", read_only=True).argv
    settings = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    own = json.loads(start("pi", settings, model="m").files[".pi/agent/models.json"])
    assert own["providers"]["custom"]["baseUrl"] == settings["OPENAI_BASE_URL"]
    assert own["providers"]["custom"]["models"] == [{"id": "m"}]
    with pytest.raises(BadRequest):
        start("pi", settings)
