"""ACP: the lines of real agents become events and answers; every ending is told for what it is."""

import json
from typing import Any

import pytest

from corral import agents
from corral.agents.protocol import Conversation, Listens
from corral.model import Tokens
from corral.model.agent_api import AgentProfile, AgentTask, Cancel, End, HangUp, Leave, Line, McpServer, Steer
from corral.model.errors import BadRequest
from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    ContextUsed,
    Ended,
    Event,
    Limited,
    Planned,
    Said,
    Spent,
    Started,
    SteerTaken,
    Step,
    ToolReturned,
    Unparsed,
)
from tests.agents.reading import TASK, kind, recorded, start

READY = [
    {"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": {"version": "2"}}},
    {"id": 2, "result": {"sessionId": "s1"}},
]  # fmt: skip
PROMPT = 3  # the number of its request
END = {"id": PROMPT, "result": {"stopReason": "end_turn"}}


class Talk:
    """One conversation, what it told and what it said."""

    def __init__(self, name: str = "acp:gemini", profile: AgentProfile | None = None, **task: Any) -> None:
        given: dict[str, Any] = {"prompt": "do it", "workspace": "/w", "home": "/home/agent", **task}
        found = agents.find(name, {name: profile} if profile else {})
        self.conversation: Conversation = found.converse(AgentTask(**given))
        self.events: list[Event] = []
        self.lines: list[dict[str, Any]] = []
        self.hung_up = False

    def hear(self, *messages: dict[str, Any] | str) -> "Talk":
        for message in messages:
            text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
            for each in self.conversation.read(text):
                if isinstance(each, Line):
                    self.lines.append(json.loads(each.text))
                elif isinstance(each, HangUp):
                    self.hung_up = True
                elif not isinstance(each, Leave):
                    self.events.append(each)
        return self

    @property
    def methods(self) -> list[str | None]:
        return [line.get("method") for line in self.lines]

    @property
    def ended(self) -> Ended:
        (found,) = [event for event in self.events if isinstance(event, Ended)]
        assert self.hung_up
        return found


def ready(name: str = "acp:gemini", **task: Any) -> Talk:
    """Return a conversation whose first prompt is under way."""
    return Talk(name, **task).hear(*READY)


def update(what: str, **more: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": what, **more}}}


def said(text: str, **more: Any) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def permission(kind_of_tool: str | None, number: int | str = 7) -> dict[str, Any]:
    call = {"toolCallId": "c1", "title": "Writing to b.txt", **({"kind": kind_of_tool} if kind_of_tool else {})}
    options = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    asked = {"sessionId": "s1", "toolCall": call, "options": options}
    return {"id": number, "method": "session/request_permission", "params": asked}


def test_what_gemini_really_said() -> None:
    talk = Talk("acp:gemini").hear(*recorded("acp-gemini"))
    write, run = (event.call for event in talk.events if isinstance(event, CalledTool))
    assert talk.events == [
        Started(talk.events[0].session if isinstance(talk.events[0], Started) else "", "gemini-2.5-flash", "0.61.0"),
        Said("I write it."),
        CalledTool("edit", "Writing to hello.txt", write),
        Asked("may it use edit: Writing to hello.txt", answer="Allow"),
        ToolReturned(write),
        Changed("/w/hello.txt"),
        Said("Run."),
        CalledTool("execute", "cat hello.txt > copy.txt; exit 3", run),
        Asked("may it use execute: cat hello.txt > copy.txt; exit 3", answer="Allow"),
        ToolReturned(run, output="[current working directory /w] (run)"),
        Said("Done."),
        Spent(Tokens(220, 26)),
        Ended(ok=True, text="Done."),
    ]
    assert talk.methods == ["session/new", "session/prompt", None, None]
    assert [line["result"]["outcome"]["optionId"] for line in talk.lines[2:]] == ["proceed_once", "proceed_once"]
    assert talk.hung_up


def test_what_claude_really_said() -> None:
    talk = Talk("acp:claude").hear(*recorded("acp-claude"))
    told = [event for event in talk.events if isinstance(event, CalledTool | Changed | Spent | Ended)]
    write, run = (event.call for event in talk.events if isinstance(event, CalledTool))
    assert told == [
        CalledTool("Write", "/w/hello.txt", write),
        Changed("/w/hello.txt"),
        CalledTool("Bash", "cat hello.txt > copy.txt; exit 3", run),
        Spent(usd=0.0022),
        Spent(Tokens(220, 26), 0.0022),
        Ended(ok=True, text="Done."),
    ]
    assert [event.ok for event in talk.events if isinstance(event, ToolReturned)] == [True, False]


def test_the_first_words() -> None:
    command = start("acp:gemini", {"GOOGLE_GEMINI_BASE_URL": "x"}, model="gemini-2.5-pro")
    assert command.argv == ("gemini", "--acp", "--skip-trust", "-m", "gemini-2.5-pro")
    assert command.talks
    assert ".gemini/settings.json" in command.files
    opening = json.loads(command.stdin)
    assert opening["method"] == "initialize"
    offered = opening["params"]["clientCapabilities"]
    assert offered == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    server = McpServer(name="notes", command="/bin/notes", args=("-v",), env={"A": "b"})
    talk = Talk(mcp=(server,)).hear(READY[0])
    wanted = {"name": "notes", "command": "/bin/notes", "args": ["-v"], "env": [{"name": "A", "value": "b"}]}
    assert talk.lines[0]["params"] == {"cwd": "/w", "mcpServers": [wanted]}


def test_the_prompt_is_asked_once_its_session_is_open() -> None:
    talk = ready()
    assert talk.events == [Started("s1", None, "2")]
    asked = talk.lines[-1]
    assert asked["method"] == "session/prompt"
    assert asked["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "do it"}]}


def test_a_session_is_loaded_where_the_agent_can_and_its_past_is_not_told_again() -> None:
    talk = Talk(session="s0").hear(READY[0], said("the past"), {"id": 2, "result": {}})
    assert talk.methods == ["session/load", "session/prompt"]
    assert talk.lines[0]["params"]["sessionId"] == "s0"
    assert talk.events == [Started("s0", None, "2")]


def test_a_session_that_is_gone_is_begun_anew() -> None:
    talk = Talk(session="s0").hear(READY[0], {"id": 2, "error": {"code": -32603, "message": "no such session"}})
    assert talk.hear({"id": 3, "result": {"sessionId": "s9"}}).methods == [
        "session/load",
        "session/new",
        "session/prompt",
    ]
    assert talk.events == [Started("s9", None, "2")]
    cannot = Talk(session="s0").hear({"id": 1, "result": {"protocolVersion": 1}})
    assert cannot.methods == ["session/new"]


def test_pieces_become_one_message_and_thoughts_none() -> None:
    talk = ready().hear(
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        said("Hel", messageId="m1"),
        update("usage_update", used=1, size=2),
        said("lo.", messageId="m1"),
        said("Next.", messageId="m2"),
        END,
    )
    assert [event.text for event in talk.events if isinstance(event, Said)] == ["Hello.", "Next."]
    assert talk.ended.text == "Next."


def test_a_plan_and_money_are_told() -> None:
    entries = [
        {"content": "look", "priority": "high", "status": "completed"},
        {"content": "write", "status": "pending"},
    ]
    talk = ready().hear(
        update("plan", entries=entries),
        update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"}),
        update("usage_update", used=1, size=2, cost={"amount": 9.0, "currency": "EUR"}),
    )
    plan = Planned((Step("look", "completed"), Step("write")))
    assert talk.events[1:] == [plan, ContextUsed(1, 2), Spent(usd=0.5), ContextUsed(1, 2)]


@pytest.mark.parametrize(
    ("kind_of_tool", "read_only", "chosen"),
    [
        ("edit", False, "yes"),
        (None, False, "yes"),
        ("edit", True, "no"),
        ("delete", True, "no"),
        ("move", True, "no"),
        ("execute", True, "no"),
        (None, True, "no"),
        ("read", True, "yes"),
        ("other", True, "yes"),
    ],
)
def test_leave_is_given_by_kind(kind_of_tool: str | None, read_only: bool, chosen: str) -> None:
    talk = ready(read_only=read_only).hear(permission(kind_of_tool, "q-1"), said("Well."), END)
    answer = next(line for line in talk.lines if "result" in line)
    assert answer == {"jsonrpc": "2.0", "id": "q-1", "result": {"outcome": {"outcome": "selected", "optionId": chosen}}}
    assert bool(talk.ended.denied) == (chosen == "no")


def test_where_no_answer_fits_the_question_is_called_off() -> None:
    talk = ready().hear({"id": 5, "method": "session/request_permission", "params": {"toolCall": {}, "options": []}})
    assert talk.lines[-1]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_what_is_not_offered_is_refused_and_what_is_not_understood_too() -> None:
    talk = ready().hear(
        {"id": "a", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}},
        {"id": 8, "method": "session/request_permission", "params": {"toolCall": 7}},
    )
    assert [line["error"]["code"] for line in talk.lines[-2:]] == [-32601, -32602]
    assert [line["id"] for line in talk.lines[-2:]] == ["a", 8]


def test_junk_is_kept_and_does_no_harm() -> None:
    junk = ["Debugger attached.", '{"jsonrpc":"2.0","id":99,"result":{}}', "[1,2]", '{"method":5}', ""]
    talk = ready().hear(*junk, update("tool_call", toolCallId=9), said("Done."), END)
    assert len([event for event in talk.events if isinstance(event, Unparsed)]) == 5
    assert talk.ended.ok


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_tokens", "context_too_long"),
        ("max_turn_requests", "bad_output"),
        ("refusal", "refused"),
        ("new", "bad_output"),
    ],
)
def test_other_reasons_to_stop_are_no_success(reason: str, expected: str) -> None:
    assert kind(ready().hear(said("Hm."), {"id": PROMPT, "result": {"stopReason": reason}}).ended) == expected


def test_called_off_it_is_stopped() -> None:
    talk = ready()
    assert isinstance(talk.conversation, Listens)
    (line,) = talk.conversation.tell(Cancel())
    assert isinstance(line, Line)
    assert json.loads(line.text) == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
    ended = talk.hear({"id": PROMPT, "result": {"stopReason": "cancelled"}}).ended
    assert (ended.ok, ended.status) == (False, "stopped")
    early = Talk()
    assert isinstance(early.conversation, Listens)
    assert early.conversation.tell(Cancel()) == []


def test_it_is_told_more_when_its_turn_ends() -> None:
    talk = ready()
    assert isinstance(talk.conversation, Listens)
    assert talk.conversation.tell(Steer("and b")) == []
    assert talk.conversation.tell(Steer("and c")) == []
    talk.hear(said("First."), END)
    assert talk.events[-2:] == [SteerTaken("and b"), SteerTaken("and c")]
    assert talk.lines[-1]["params"]["prompt"] == [{"type": "text", "text": "and b\n\nand c"}]
    assert not talk.hung_up
    assert talk.hear(said("Both."), {"id": 4, "result": {"stopReason": "end_turn"}}).ended.text == "Both."


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": -32000, "message": "Authentication required"}, "auth"),
        ({"code": 401, "message": '{"error":{"code":401}}'}, "auth"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "401 the provider says no"}}, "auth"),
        ({"code": 429, "message": "slow down"}, "rate_limit"),
        ({"code": -32603, "message": "Internal error", "data": "503 Service Unavailable"}, "overloaded"),
        ({"code": -32603, "message": "Internal error", "data": [1]}, "crash"),
        ({"code": -32602}, "crash"),
    ],
)
def test_a_refused_prompt_is_told_by_its_class(error: dict[str, Any], expected: str) -> None:
    talk = ready().hear({"id": PROMPT, "error": error})
    assert kind(talk.ended) == expected
    assert any(isinstance(event, Limited) for event in talk.events) == (expected == "rate_limit")


def test_a_login_is_tried_once_where_the_agent_asks_for_it() -> None:
    first = {"id": 1, "result": {"protocolVersion": 1, "authMethods": [{"id": "gemini-api-key"}]}}
    needed = {"code": -32000, "message": "Authentication required"}
    talk = Talk().hear(first, {"id": 2, "error": needed}, {"id": 3, "result": {}})
    assert talk.methods == ["session/new", "authenticate", "session/new"]
    assert kind(talk.hear({"id": 4, "error": needed}).ended) == "auth"
    error = Talk().hear({"id": 1, "result": {"protocolVersion": 1}}, {"id": 2, "error": needed}).ended.error
    assert error is not None
    assert "GEMINI_API_KEY" in error.hint


def test_an_error_that_copilot_only_says_is_one() -> None:
    talk = ready("acp:copilot").hear(said("Error: Authentication failed with provider (HTTP 401)."), END)
    assert kind(talk.ended) == "auth"


@pytest.mark.parametrize("answer", [{"protocolVersion": 2}, {}, None, "yes"])
def test_an_opening_that_is_not_acp_1_ends_it(answer: object) -> None:
    assert kind(Talk().hear({"id": 1, "result": answer}).ended) == "bad_output"


def test_gone_without_a_word() -> None:
    (ended,) = Talk().conversation.exited(End(3, "Error: not logged in\n"))
    assert isinstance(ended, Ended)
    assert kind(ended) == "auth"


OWN = AgentProfile(command=("mine", "--in", "{workspace}"), output="acp")
MODELS = {"sessionId": "s1", "models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]}}
OPTION = {
    "id": "m",
    "category": "model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a"}, {"value": "b"}],
}


@pytest.mark.parametrize(
    ("opened", "method"),
    [(MODELS, "session/set_model"), ({"sessionId": "s1", "configOptions": [OPTION]}, "session/set_config_option")],
)
def test_a_model_is_chosen_where_the_agent_offers_it(opened: dict[str, Any], method: str) -> None:
    talk = Talk("own", OWN, model="b").hear(READY[0], {"id": 2, "result": opened}, {"id": 3, "result": {}})
    assert talk.methods == ["session/new", method, "session/prompt"]
    assert "b" in talk.lines[1]["params"].values()
    error = Talk("own", OWN, model="c").hear(READY[0], {"id": 2, "result": opened}).ended.error
    assert error is not None
    assert (error.kind, error.hint) == ("not_found", "it offers: a, b")


def test_codex_is_let_out_of_its_own_sandbox() -> None:
    modes = {"currentModeId": "agent", "availableModes": [{"id": "agent"}, {"id": "agent-full-access"}]}
    opened = {"id": 2, "result": {"sessionId": "s1", "modes": modes}}
    talk = Talk("acp:codex").hear(READY[0], opened, {"id": 3, "result": {}})
    assert talk.methods == ["session/new", "session/set_mode", "session/prompt"]
    assert talk.lines[1]["params"]["modeId"] == "agent-full-access"


def test_any_command_may_speak_it() -> None:
    found = agents.find("own", {"own": OWN})
    assert found.start(TASK).argv == ("mine", "--in", "/w")
    assert found.facts.family == "cli:own"
    with pytest.raises(BadRequest, match="no ACP agent is called `acp:nobody`"):
        agents.find("acp:nobody", {})
    assert agents.find("acp:claude-agent-acp", {}).facts.keys == agents.find("claude", {}).facts.keys


@pytest.mark.parametrize(
    ("offered", "answer"),
    [
        (["reject_always", "reject_once"], "reject_once"),
        (["reject_always"], "reject_always"),
        (["reject_once", "allow_once"], "allow_once"),
    ],
)
def test_who_offers_only_refusals_is_refused_not_cancelled(offered: list[str], answer: str) -> None:
    asked = permission("edit")
    asked["params"]["options"] = [{"optionId": each, "name": each, "kind": each} for each in offered]
    outcome = ready().hear(asked).lines[-1]["result"]["outcome"]
    assert outcome == {"outcome": "selected", "optionId": answer}


def test_who_offers_no_answer_at_all_is_cancelled() -> None:
    asked = permission("edit")
    asked["params"]["options"] = []
    assert ready().hear(asked).lines[-1]["result"]["outcome"] == {"outcome": "cancelled"}


def test_a_command_may_name_how_it_authenticates() -> None:
    profile = AgentProfile(command=("bash", "agent.sh"), output="acp", authenticate="api-key")
    methods = [{"id": "browser", "name": "Browser"}, {"id": "api-key", "name": "Key"}]
    talk = Talk("mine", profile).hear({"id": 1, "result": {"protocolVersion": 1, "authMethods": methods}})
    assert (talk.methods[-1], talk.lines[-1]["params"]) == ("authenticate", {"methodId": "api-key"})
    assert talk.hear({"id": 2, "result": {}}).methods[-1] == "session/new"


def test_a_command_that_wants_a_login_is_named_in_the_hint() -> None:
    profile = AgentProfile(command=("bash", "agent.sh"), output="acp")
    methods = [{"id": "browser", "name": "Browser"}]
    talk = Talk("mine", profile).hear({"id": 1, "result": {"protocolVersion": 1, "authMethods": methods}})
    error = talk.hear({"id": 2, "error": {"code": -32000, "message": "Authentication required"}}).ended.error
    assert error is not None
    assert error.kind == "auth"
    assert "browser" in error.message
    assert "`mine`" in error.hint
    assert "bash" not in error.hint


def test_a_command_that_is_gone_is_called_by_its_own_name() -> None:
    profile = AgentProfile(command=("bash", "agent.sh"), output="acp")
    talk = Talk("mine", profile)
    (last,) = talk.conversation.exited(End(3, "boom"))
    assert isinstance(last, Ended)
    assert last.error is not None
    assert last.error.message.startswith("mine ended with 3")
