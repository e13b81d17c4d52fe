"""OpenCode: its stream as the real program prints it, its endings, its command; and the archived Go program."""

import json

import pytest

from corral.model import Tokens
from corral.model.errors import BadRequest
from corral.model.events import CalledTool, Changed, ContextUsed, Ended, Said, Spent, Started, ToolReturned
from tests.agents.reading import ended, kind, recorded, start, told

WRITE, RUN = "call_01015f93f107414788e7_0", "call_acd90b9f67ff440b9674_0"


def test_a_whole_recorded_stream() -> None:
    assert told("opencode", recorded("opencode")) == [
        Started("ses_e1e82aedbffeqxkp1Y7X3xnCF0"),
        Said("I write it."),
        CalledTool("write", "/w/hello.txt", WRITE),
        ToolReturned(WRITE, ok=True, output="Wrote file successfully."),
        Changed("/w/hello.txt"),
        Spent(Tokens(100, 20, 7)),
        ContextUsed(127),
        Said("Now a command."),
        CalledTool("bash", "echo ran > ran.txt; ls", RUN),
        ToolReturned(RUN, ok=True, output="hello.txt\nran.txt\n"),
        Spent(Tokens(250, 30, 7)),
        ContextUsed(160),
        Said("Done."),
        Spent(Tokens(280, 33, 7)),
        ContextUsed(33),
        Ended(ok=True, text="Done."),
    ]


SAID = {"type": "text", "sessionID": "s", "part": {"text": "Done."}}


def finished(reason: str) -> dict[str, object]:
    return {"type": "step_finish", "sessionID": "s", "part": {"reason": reason, "cost": 0.5, "tokens": {"input": 1}}}


def test_its_cost_is_summed() -> None:
    lines = [json.dumps(finished(reason)) for reason in ("tool-calls", "stop")]
    assert Spent(Tokens(2), 1.0) in told("opencode", lines)


@pytest.mark.parametrize(
    ("reason", "code", "expected"),
    [("tool-calls", 0, "crash"), ("stop", 1, "crash"), ("length", 0, "bad_output"), ("content-filter", 0, "refused")],
)
def test_a_last_step_that_is_none(reason: str, code: int, expected: str) -> None:
    assert kind(ended("opencode", finished(reason), code=code)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"message": "no", "statusCode": 401}, "auth"),
        ({"message": "no", "statusCode": 429}, "rate_limit"),
        ({"message": "no", "statusCode": 500}, "overloaded"),
        ({"message": "Model not found: custom/x."}, "not_found"),
    ],
)
def test_an_error(data: dict[str, object], expected: str) -> None:
    error = {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": data}}
    assert kind(ended("opencode", error, code=1)) == expected


def test_help_is_not_work() -> None:
    assert (
        kind(ended("opencode", code=0, stderr="opencode run [message..]\n\nrun opencode with a message\n")) == "crash"
    )


def test_a_tool_that_was_not_allowed_is_named() -> None:
    state = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    end = ended("opencode", {"type": "tool_use", "part": {"tool": "webfetch", "state": state}}, finished("stop"))
    assert end.denied == ("webfetch",)


def test_the_command() -> None:
    command = start("opencode", model="anthropic/claude-sonnet-4-5", session="ses_1")
    assert command.stdin == b"do it"
    assert command.argv[:6] == ("opencode", "run", "--format", "json", "--dir", "/w")
    assert command.argv[6:] == ("--model", "anthropic/claude-sonnet-4-5", "--session", "ses_1")
    config = json.loads(command.env["OPENCODE_CONFIG_CONTENT"])
    assert config["permission"]["edit"] == "allow"
    assert "provider" not in config
    unboxed = json.loads(start("opencode", boxed=False, read_only=True).env["OPENCODE_CONFIG_CONTENT"])
    assert unboxed["permission"] == {
        "edit": "deny",
        "bash": "allow",
        "webfetch": "deny",
        "external_directory": "deny",
        "doom_loop": "deny",
    }


def test_another_provider() -> None:
    settings = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    command = start("opencode", settings, model="m")
    config = json.loads(command.env["OPENCODE_CONFIG_CONTENT"])
    assert command.argv[-1] == "custom/m"
    assert config["provider"]["custom"]["options"]["baseURL"] == settings["OPENAI_BASE_URL"]
    with pytest.raises(BadRequest):
        start("opencode", settings)


LEGACY = {"OPENCODE_LEGACY": "1"}


def test_the_old_program() -> None:
    assert start("opencode", LEGACY).argv == ("opencode", "-p", "do it", "-f", "json", "-q", "-c", "/w")
    lines = ["{", '  "response": "Done."', "}"]
    assert told("opencode", lines, settings=LEGACY) == [Said("Done."), Ended(ok=True, text="Done.")]
    with pytest.raises(BadRequest):
        start("opencode", LEGACY, prompt="x" * 200_000)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["Usage:", "  opencode [flags]"], 0),  # its help, which another program of that name prints
        (['{"response": ""}'], 0),
        (['{"response": "half"}'], 1),
        ([], 0),
    ],
)
def test_what_the_old_program_must_not_end_with(lines: list[str], code: int) -> None:
    end = told("opencode", lines, code, settings=LEGACY)[-1]
    assert isinstance(end, Ended)
    assert not end.ok


def test_nothing_said_and_nothing_done_is_no_success() -> None:
    assert kind(ended("opencode", finished("stop"))) == "bad_output"


def test_it_shortens_its_context_by_itself_and_ends_with_1() -> None:
    overflow = {"type": "error", "sessionID": "s", "error": {"name": "ContextOverflowError", "data": {"message": "x"}}}
    lines = [json.dumps(line) for line in (overflow, SAID, finished("stop"))]
    end = told("opencode", lines, 1)[-1]
    assert isinstance(end, Ended)
    assert end.ok
    without = told("opencode", lines[1:], 1)[-1]
    assert isinstance(without, Ended)
    assert not without.ok
