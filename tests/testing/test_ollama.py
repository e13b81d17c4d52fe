"""The Ollama wire format over real HTTP."""

from corral.testing import Script, ScriptedModel, Turn, Usage
from tests.testing.exchange import get, post, schema

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": schema("command")}}]
WORK = Turn(thinking="Let me think about it.", text="I will run a command.", sh="ls", usage=Usage(input=11, output=7))


def ask(model, *, turns=0, **more):
    messages = [{"role": "user", "content": "go"}, *[{"role": "assistant", "content": "..."}] * turns]
    return post(model.url, "/api/chat", {"model": "m", "messages": messages, "tools": TOOLS, **more})


def test_a_whole_answer():
    with ScriptedModel([WORK]) as model:
        body = ask(model, stream=False).json
    call = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    expected = {"role": "assistant", "content": WORK.text, "thinking": WORK.thinking, "tool_calls": [call]}
    assert body["message"] == expected
    assert (body["done"], body["prompt_eval_count"], body["eval_count"]) == (True, 11, 7)


def test_lines_are_streamed_unless_told_otherwise_and_add_up_to_the_same():
    with ScriptedModel([WORK]) as model:
        received = ask(model)
    lines = received.lines
    assert received.headers["content-type"] == "application/x-ndjson"
    assert "".join(line["message"]["content"] for line in lines) == WORK.text
    assert "".join(line["message"].get("thinking", "") for line in lines) == WORK.thinking
    assert lines[-2]["message"]["tool_calls"][0]["function"]["arguments"] == {"command": "ls"}
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_count"] == 7


def test_each_request_gets_the_turn_of_its_history():
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        assert [ask(model, turns=turns, stream=False).json["message"]["content"] for turns in (1, 0, 2)] == [
            "two",
            "one",
            "done",
        ]


def test_generate_answers_a_prompt():
    with ScriptedModel(Script(turns=(Turn(text="one"),), toolless=True)) as model:
        whole = post(model.url, "/api/generate", {"model": "m", "prompt": "go", "stream": False}).json
        lines = post(model.url, "/api/generate", {"model": "m", "prompt": "go"}).lines
    assert whole["response"] == "".join(line["response"] for line in lines) == "one"


def test_an_error_is_a_message():
    with ScriptedModel([Turn(status=500, message="broken")]) as model:
        received = ask(model)
    assert (received.status, received.json) == (500, {"error": "broken"})


def test_the_small_questions():
    with ScriptedModel([]) as model:
        assert get(model.url, "/api/version").json["version"]
        assert get(model.url, "/api/tags").json["models"][0]["name"] == "fake-model:latest"
        assert get(model.url, "/api/ps").status == 200
        assert "tools" in post(model.url, "/api/show", {"model": "m"}).json["capabilities"]
