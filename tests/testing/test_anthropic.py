"""The Anthropic wire format over real HTTP."""

import json

from corral.testing import Call, ScriptedModel, Turn, Usage
from tests.testing.exchange import post, schema

PATH = "/v1/messages"
TOOLS = [
    {"name": "Write", "input_schema": schema("file_path", "content")},
    {"name": "Bash", "input_schema": schema("command", "description")},
]
USAGE = Usage(input=11, output=7, cache_read=5, cache_write=3)
REPORTED = {
    "input_tokens": 11,
    "output_tokens": 7,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 3,
}
WORK = Turn(
    thinking="Let me think about it.", text="I will write it.", write={"path": "a", "content": "b"}, usage=USAGE
)


def ask(model, *, turns=0, stream=False, tools=TOOLS):
    said = [{"role": "assistant", "content": "..."}, {"role": "user", "content": "..."}] * turns
    messages = [{"role": "user", "content": "go"}, *said]
    return post(model.url, PATH, {"model": "m", "messages": messages, "tools": tools, "stream": stream})


def test_a_whole_answer_has_thinking_text_call_and_usage():
    with ScriptedModel([WORK]) as model:
        message = ask(model).json
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][2]["input"] == {"file_path": "a", "content": "b"}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == REPORTED


def test_a_stream_adds_up_to_the_same():
    with ScriptedModel([WORK]) as model:
        received = ask(model, stream=True)
    events = received.events
    assert received.headers["content-type"] == "text/event-stream"
    assert events[0]["type"] == "message_start"
    assert events[-1]["type"] == "message_stop"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == WORK.thinking
    assert "".join(delta.get("text", "") for delta in deltas) == WORK.text
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"file_path": "a", "content": "b"}
    assert events[-2]["usage"] == REPORTED
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_each_request_gets_the_turn_of_its_history():
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        texts = [ask(model, turns=turns).json["content"][0]["text"] for turns in (1, 0, 0, 2)]
    assert texts == ["two", "one", "one", "done"]


def test_several_calls_in_one_turn_have_different_ids():
    with ScriptedModel([Turn(calls=(Call(sh="one"), Call(sh="two")))]) as model:
        content = ask(model).json["content"]
    assert [block["input"]["command"] for block in content] == ["one", "two"]
    assert len({block["id"] for block in content}) == 2


def test_a_request_without_tools_gets_the_side_text():
    with ScriptedModel([Turn(text="one")]) as model:
        assert ask(model, tools=[]).json["content"][0]["text"] == "Side answer"


def test_an_error_names_its_kind():
    with ScriptedModel([Turn(status=529, message="busy")]) as model:
        received = ask(model, stream=True)
    assert received.status == 529
    assert received.json == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


def test_a_wish_for_which_no_tool_is_offered_is_a_plain_error():
    with ScriptedModel([Turn(sh="ls")]) as model:
        received = ask(model, tools=TOOLS[:1])
    assert received.status == 400
    assert "needs a shell tool, the program offers Write" in received.json["error"]["message"]


def test_tokens_are_counted():
    with ScriptedModel([]) as model:
        assert post(model.url, PATH + "/count_tokens", {"messages": []}).json == {"input_tokens": 10}
