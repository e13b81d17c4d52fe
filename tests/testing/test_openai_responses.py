"""The OpenAI responses wire format over real HTTP."""

import json

from corral.testing import Call, ScriptedModel, Turn, Usage
from tests.testing.exchange import post, schema

PATH = "/v1/responses"
SHELL = {"type": "function", "name": "exec_command", "parameters": schema("cmd")}
NOTER = {"type": "namespace", "name": "mcp__noter", "tools": [{"name": "note", "parameters": schema("text")}]}
WORK = Turn(
    thinking="Let me think about it.",
    text="I will run a command.",
    sh="ls",
    usage=Usage(input=11, output=7, cache_read=5, cache_write=3),
)


def ask(model, *said, stream=False, tools=(SHELL, NOTER)):
    prompt = {"type": "message", "role": "user", "content": "go"}
    return post(model.url, PATH, {"model": "m", "input": [prompt, *said], "tools": list(tools), "stream": stream})


def text_of(received):
    return received.json["output"][0]["content"][0]["text"]


def test_a_whole_answer():
    with ScriptedModel([WORK]) as model:
        body = ask(model).json
    assert [item["type"] for item in body["output"]] == ["reasoning", "message", "function_call"]
    assert json.loads(body["output"][2]["arguments"]) == {"cmd": "ls"}
    assert body["status"] == "completed"
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (19, 7)
    assert body["usage"]["input_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 3}


def test_a_stream_adds_up_to_the_same():
    with ScriptedModel([WORK]) as model:
        events = ask(model, stream=True).events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"

    def joined(kind):
        return "".join(event["delta"] for event in events if event["type"] == kind)

    assert joined("response.output_text.delta") == WORK.text
    assert joined("response.reasoning_summary_text.delta") == WORK.thinking
    assert json.loads(joined("response.function_call_arguments.delta")) == {"cmd": "ls"}
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]


def test_calls_of_one_answer_count_as_one_turn_also_where_they_stand_apart():
    turns = [Turn(calls=(Call(sh="one"), Call(sh="two"))), Turn(text="second"), Turn(text="third")]
    with ScriptedModel(turns) as model:
        one, two = ask(model).json["output"]
        results = [{"type": "function_call_output", "call_id": call["call_id"], "output": ""} for call in (one, two)]
        assert text_of(ask(model, one, two, *results)) == "second"
        assert text_of(ask(model, one, results[0], two, results[1])) == "second"
        said = {"type": "message", "role": "assistant", "content": "second"}
        assert text_of(ask(model, one, two, *results, said, {"role": "user", "content": "more"})) == "third"


def test_a_tool_in_a_namespace_is_called_by_its_short_name():
    with ScriptedModel([Turn(tool="mcp__noter__note", input={"text": "x"})]) as model:
        (call,) = ask(model).json["output"]
    assert (call["namespace"], call["name"], json.loads(call["arguments"])) == ("mcp__noter", "note", {"text": "x"})


def test_a_custom_tool_gets_plain_text_and_the_local_shell_a_list():
    custom = {"type": "custom", "name": "apply_patch"}
    with ScriptedModel([Turn(write={"path": "a", "content": "b"}, sh="ls")]) as model:
        patch, shell = ask(model, tools=[custom, {"type": "local_shell"}]).json["output"]
    assert (patch["type"], patch["input"].splitlines()[1]) == ("custom_tool_call", "*** Add File: a")
    assert (shell["type"], shell["action"]["command"]) == ("local_shell_call", ["bash", "-lc", "ls"])


def test_a_request_without_tools_gets_the_side_text_and_an_error_its_kind():
    with ScriptedModel([WORK]) as model:
        assert text_of(ask(model, tools=())) == "Side answer"
    with ScriptedModel([Turn(status=429, message="slower")]) as model:
        received = ask(model, stream=True)
    assert (received.status, received.json["error"]["type"]) == (429, "rate_limit_error")


def test_tokens_are_counted():
    with ScriptedModel([]) as model:
        assert post(model.url, PATH + "/input_tokens", {"input": "x"}).json["input_tokens"] == 10
