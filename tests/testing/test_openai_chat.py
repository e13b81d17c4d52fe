"""The OpenAI chat completions wire format over real HTTP."""

import json

from corral.testing import Call, ScriptedModel, Turn, Usage
from tests.testing.exchange import post, schema

PATH = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": schema("command")}}]
WORK = Turn(
    thinking="Let me think about it.",
    text="I will run two commands.",
    calls=(Call(sh="one"), Call(sh="two")),
    usage=Usage(input=11, output=7, cache_read=5, cache_write=3),
)


def ask(model, *, turns=0, stream=False, tools=TOOLS):
    messages = [{"role": "user", "content": "go"}, *[{"role": "assistant", "content": "..."}] * turns]
    return post(model.url, PATH, {"model": "m", "messages": messages, "tools": tools, "stream": stream})


def test_a_whole_answer():
    with ScriptedModel([WORK]) as model:
        body = ask(model).json
    choice = body["choices"][0]
    assert choice["message"]["content"] == WORK.text
    assert choice["message"]["reasoning_content"] == WORK.thinking
    arguments = [call["function"]["arguments"] for call in choice["message"]["tool_calls"]]
    assert [json.loads(each) for each in arguments] == [{"command": "one"}, {"command": "two"}]
    assert choice["finish_reason"] == "tool_calls"
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (19, 7)
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 3}


def test_a_stream_adds_up_to_the_same():
    with ScriptedModel([WORK]) as model:
        received = ask(model, stream=True)
    assert received.text.endswith("data: [DONE]\n\n")
    *chunks, last = received.events
    assert last["usage"]["total_tokens"] == 26
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == WORK.text
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == WORK.thinking
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    for index, command in enumerate(("one", "two")):
        arguments = "".join(call["function"]["arguments"] for call in calls if call["index"] == index)
        assert json.loads(arguments) == {"command": command}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_each_request_gets_the_turn_of_its_history():
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        texts = [ask(model, turns=turns).json["choices"][0]["message"]["content"] for turns in (1, 0, 2)]
    assert texts == ["two", "one", "done"]


def test_a_request_without_tools_gets_the_side_text():
    with ScriptedModel([WORK]) as model:
        assert ask(model, tools=None).json["choices"][0]["message"]["content"] == "Side answer"


def test_an_error_names_its_kind():
    with ScriptedModel([Turn(status=401, message="no key")]) as model:
        received = ask(model)
    assert received.status == 401
    assert received.json["error"]["type"] == "authentication_error"
    assert received.json["error"]["message"] == "no key"
