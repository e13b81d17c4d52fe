"""The Gemini wire format over real HTTP."""

import json

from corral.testing import ScriptedModel, Turn, Usage
from tests.testing.exchange import get, post, schema

PATH = "/v1beta/models/gemini-2.5-flash"
DECLARATIONS = [{"name": "write_file", "parametersJsonSchema": schema("file_path", "content")}]
WORK = Turn(
    thinking="Let me think about it.",
    text="I will write it.",
    write={"path": "a", "content": "b"},
    usage=Usage(input=11, output=7, cache_read=5, cache_write=3),
)


def ask(model, *, turns=0, verb="generateContent", **more):
    contents = [{"role": "user", "parts": [{"text": "go"}]}, *[{"role": "model", "parts": []}] * turns]
    body = {"contents": contents, "tools": [{"functionDeclarations": DECLARATIONS}], **more}
    return post(model.url, f"{PATH}:{verb}", body)


def parts_of(response):
    return response["candidates"][0]["content"]["parts"]


def test_a_whole_answer():
    with ScriptedModel([WORK]) as model:
        body = ask(model).json
    thought, text, call = parts_of(body)
    assert thought == {"text": WORK.thinking, "thought": True}
    assert text == {"text": WORK.text}
    assert call["functionCall"]["name"] == "write_file"
    assert call["functionCall"]["args"] == {"file_path": "a", "content": "b"}
    usage = body["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"], usage["candidatesTokenCount"]) == (19, 5, 7)


def test_a_stream_adds_up_to_the_same():
    with ScriptedModel([WORK]) as model:
        chunks = ask(model, verb="streamGenerateContent?alt=sse").events
    parts = [part for chunk in chunks for part in parts_of(chunk)]
    assert "".join(part["text"] for part in parts if "text" in part and "thought" not in part) == WORK.text
    assert "".join(part["text"] for part in parts if "thought" in part) == WORK.thinking
    assert parts[-1]["functionCall"]["args"] == {"file_path": "a", "content": "b"}
    assert ["finishReason" in chunk["candidates"][0] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_each_request_gets_the_turn_of_its_history():
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        assert [parts_of(ask(model, turns=turns).json)[0]["text"] for turns in (1, 0, 2)] == ["two", "one", "done"]


def test_a_side_request_for_json_gets_json():
    with ScriptedModel([WORK]) as model:
        plain = ask(model, tools=[]).json
        wanted = ask(model, tools=[], generationConfig={"responseMimeType": "application/json"}).json
    assert parts_of(plain)[0]["text"] == "Side answer"
    assert json.loads(parts_of(wanted)[0]["text"])["next_speaker"] == "user"


def test_an_error_names_its_status():
    with ScriptedModel([Turn(status=429, message="slower")]) as model:
        received = ask(model, verb="streamGenerateContent?alt=sse")
    assert received.status == 429
    assert received.json == {"error": {"code": 429, "message": "slower", "status": "RESOURCE_EXHAUSTED"}}


def test_counting_listing_and_unknown_methods():
    with ScriptedModel([]) as model:
        assert ask(model, verb="countTokens").json == {"totalTokens": 10}
        assert get(model.url, "/v1beta/models").json["models"][0]["name"] == "models/fake-model"
        assert ask(model, verb="embedContent").status == 404
