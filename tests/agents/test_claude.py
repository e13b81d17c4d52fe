"""Claude's stream, as the real program prints it, becomes events; every ending is told for what it is."""

import json

import pytest

from corral.agents.claude import Claude, ClaudeConversation, reader
from corral.model import Tokens
from corral.model.agent_api import AgentProfile, AgentTask, End, HangUp, Line, Steer
from corral.model.events import (
    CalledTool,
    Changed,
    ContextUsed,
    Ended,
    Limited,
    QuotaReported,
    Said,
    Spent,
    Started,
    SteerTaken,
    ToolReturned,
    Unparsed,
)
from tests.agents.reading import start, told

RECORDED = [
    {"type": "system", "subtype": "init", "session_id": "cb3b", "model": "claude-sonnet-4-5", "claude_code_version": "2.1.325", "tools": ["Bash"]},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "I will write the file."}], "usage": {"output_tokens": 1}}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "/w/hello.txt", "content": "x"}}]}},
    {"type": "user", "message": {"role": "user", "content": [{"tool_use_id": "t1", "type": "tool_result", "content": "File created"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "ls"}}]}},
    {"type": "user", "message": {"content": [{"tool_use_id": "t2", "type": "tool_result", "is_error": True, "content": [{"type": "text", "text": "denied"}]}]}},
    {"type": "user", "message": {"role": "user", "content": "a plain string"}},
    {"type": "system", "subtype": "api_retry", "attempt": 1},
    {"duration_api_ms": 192, "session_id": "cb3b", "total_cost_usd": 0.0012, "usage": {"input_tokens": 200, "output_tokens": 40, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}, "permission_denials": [], "is_error": False, "subtype": "success", "result": "Done.", "type": "result"},
]  # fmt: skip


def test_a_whole_recorded_stream() -> None:
    conversation = ClaudeConversation()
    events = [event for line in RECORDED for event in conversation.read(json.dumps(line))]
    assert events == [
        Started("cb3b", "claude-sonnet-4-5", "2.1.325"),
        Said("I will write the file."),
        CalledTool("Write", "/w/hello.txt", "t1"),
        ToolReturned("t1", ok=True, output="File created"),
        Changed("/w/hello.txt"),
        CalledTool("Bash", "ls", "t2"),
        ToolReturned("t2", ok=False, output="denied"),
        Spent(Tokens(200, 40, 5, 3), 0.0012),
        Ended(ok=True, text="Done."),
        HangUp(),
    ]
    assert conversation.exited(End(0, "")) == []


def ending(**fields: object) -> Ended:
    line = {"type": "result", "subtype": "success", "is_error": True, "result": "", **fields}
    events = reader().read(json.dumps(line))
    last = events[-1]
    assert isinstance(last, Ended)
    return last


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"api_error_status": 401, "result": "Invalid API key"}, "auth"),
        ({"api_error_status": 403}, "auth"),
        ({"api_error_status": 404, "result": "model not found"}, "not_found"),
        ({"api_error_status": 429, "result": "usage limit"}, "rate_limit"),
        ({"api_error_status": 500}, "overloaded"),
        ({"api_error_status": 529}, "overloaded"),
        ({"api_error_status": 400, "result": "Prompt is too long"}, "context_too_long"),
        ({"result": "API Error: Connection error."}, "network"),
        ({"result": "self-signed certificate in certificate chain"}, "tls"),
        ({"subtype": "error_max_turns"}, "bad_output"),
        ({"subtype": "error_during_execution"}, "crash"),
    ],
)
def test_success_in_the_subtype_is_not_success(fields: dict[str, object], kind: str) -> None:
    ended = ending(**fields)
    assert not ended.ok
    assert ended.error is not None
    assert ended.error.kind == kind


def test_its_own_budget_cap_is_over_budget() -> None:
    assert ending(subtype="error_max_budget_usd").status == "over_budget"


def test_a_limit_is_told_as_such() -> None:
    line = {"type": "result", "subtype": "success", "is_error": True, "result": "limit", "api_error_status": 429}
    assert any(isinstance(event, Limited) for event in reader().read(json.dumps(line)))


def test_it_tells_how_the_windows_of_its_account_stand() -> None:
    info = {
        "status": "allowed_warning", "resetsAt": 1794835732, "rateLimitType": "five_hour", "utilization": 0.93,
        "isUsingOverage": False, "surpassedThreshold": 0.9, "unifiedWindows": {
            "five_hour": {"utilization": 0.93, "resetsAt": 1794835732, "status": "allowed_warning"},
            "seven_day_opus": {"utilization": 0.5, "resetsAt": 1795000000, "status": "allowed"},
        },
    }  # fmt: skip
    line = {"type": "rate_limit_event", "rate_limit_info": info, "session_id": "743c"}
    assert reader().read(json.dumps(line)) == [
        QuotaReported("5h", 0.93, 1794835732),
        QuotaReported("7d opus", 0.5, 1795000000),
    ]
    del info["unifiedWindows"]  # as older ones print it
    assert reader().read(json.dumps(line)) == [QuotaReported("5h", 0.93, 1794835732)]
    assert reader().read(json.dumps({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}})) == []


def test_denied_tools_are_named() -> None:
    assert ending(is_error=False, permission_denials=[{"tool_name": "WebFetch"}]).denied == ("WebFetch",)


def test_no_result_line_is_a_crash() -> None:
    (ended,) = ClaudeConversation().exited(End(0, "Segmentation fault\n"))
    assert isinstance(ended, Ended)
    assert not ended.ok
    assert "Segmentation fault" in ended.error.message  # type: ignore[union-attr]


def test_an_unknown_line_is_kept() -> None:
    assert ClaudeConversation().read("npm notice") == [Unparsed("npm notice")]


def test_the_command() -> None:
    task = AgentTask(prompt="fix it", workspace="/w", home="/home/agent", model="opus", session="s1", budget_usd=1.5)
    command = Claude(AgentProfile(program="/opt/claude")).start(task)
    assert command.argv[0] == "/opt/claude"
    assert json.loads(command.stdin)["message"]["content"] == [{"type": "text", "text": "fix it"}]
    assert command.talks
    assert "fix it" not in command.argv
    for flag, value in (("--model", "opus"), ("--resume", "s1"), ("--max-budget-usd", "1.5000")):
        assert command.argv[command.argv.index(flag) + 1] == value
    assert "--dangerously-skip-permissions" in command.argv
    assert command.env["DISABLE_TELEMETRY"] == "1"
    unboxed = Claude(AgentProfile()).start(AgentTask(prompt="x", workspace="/w", home="/h", boxed=False))
    assert "--dangerously-skip-permissions" not in unboxed.argv


def said_back(text: str) -> str:
    return json.dumps({"type": "user", "isReplay": True, "message": {"content": [{"type": "text", "text": text}]}})


def test_it_is_not_hung_up_on_before_it_has_taken_in_what_it_was_told() -> None:
    conversation, result = ClaudeConversation(), json.dumps(RECORDED[-1])
    assert conversation.read(said_back("the task")) == []
    (line,) = conversation.tell(Steer("also the docs"))
    assert json.loads(line.text)["message"]["content"][0]["text"] == "also the docs"
    assert isinstance(line, Line)
    assert conversation.read(result) == [Spent(Tokens(200, 40, 5, 3), 0.0012)]
    assert conversation.read(said_back("also the docs")) == [SteerTaken("also the docs")]
    spent, ended, hang_up = conversation.read(result)
    assert spent == Spent(Tokens(400, 80, 10, 6), 0.0012)
    assert ended == Ended(ok=True, text="Done.")
    assert hang_up == HangUp()


def test_a_schema_is_its_own_flag() -> None:
    assert "--json-schema" not in start("claude").argv
    argv = start("claude", schema={"type": "object"}).argv
    assert argv[argv.index("--json-schema") + 1] == '{"type":"object"}'


def test_it_tells_how_full_its_window_is_but_not_that_of_its_own_agents() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    own = {"type": "assistant", "message": {"content": [], "usage": usage}}
    lines = [
        own,
        own,
        {**own, "parent_tool_use_id": "toolu_1", "message": {"content": [], "usage": {"input_tokens": 9}}},
    ]
    assert told("claude", [json.dumps(line) for line in lines])[:-1] == [ContextUsed(125)]


def test_an_error_may_be_a_word() -> None:
    line = {
        "type": "assistant",
        "error": "invalid_request",
        "message": {"content": [{"type": "text", "text": "Too long"}]},
    }
    assert told("claude", [json.dumps(line)])[0] == Said("Too long")
