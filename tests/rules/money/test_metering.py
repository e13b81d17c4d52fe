"""Usage read from answers, whole and cut anywhere, of every provider; nothing is kept that need not be."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import Tokens
from corral.rules.money import metering
from corral.rules.money.metering import TokenMeter
from tests.rig.tries import tries

EVENTS, LINES, JSON = "text/event-stream", "application/x-ndjson", "application/json"


def sse(*parts: Any) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(part).encode() + b"\n\n" for part in parts) + b"data: [DONE]\n\n"


ANTHROPIC = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}
CHAT = {
    "prompt_tokens": 17,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
}
RESPONSES = {
    "input_tokens": 17,
    "output_tokens": 5,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
}
GEMINI = {
    "promptTokenCount": 13, "cachedContentTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 3,
    "totalTokenCount": 18,
}  # fmt: skip
WHOLE = Tokens(10, 5, 3, 4)
READ = Tokens(10, 5, 3)
ANSWERS: dict[str, tuple[str, bytes, Tokens]] = {
    "anthropic events": (
        EVENTS,
        sse(
            {"type": "message_start", "message": {"model": "m", "usage": ANTHROPIC}},
            {"type": "content_block_delta", "delta": {"text": 'say "usage": {"output_tokens": 900}'}},
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ),
        WHOLE,
    ),
    "anthropic events whose end repeats all": (
        EVENTS,
        sse(
            {"type": "message_start", "message": {"model": "m", "usage": ANTHROPIC}},
            {"type": "message_delta", "usage": {**ANTHROPIC, "output_tokens": 5}},
        ),
        WHOLE,
    ),
    "anthropic whole": (JSON, json.dumps({"model": "m", "content": [], "usage": {**ANTHROPIC, "output_tokens": 5}}).encode(), WHOLE),
    "chat events": (
        EVENTS,
        sse({"model": "m", "choices": [{}], "usage": None}, {"model": "m", "choices": [], "usage": CHAT}),
        WHOLE,
    ),
    "chat whole": (JSON, json.dumps({"model": "m", "choices": [], "usage": CHAT}, indent=2).encode(), WHOLE),
    "chat with a cache of its own": (
        JSON,
        json.dumps({"model": "m", "usage": {"prompt_tokens": 13, "completion_tokens": 5, "prompt_cache_hit_tokens": 3}}).encode(),
        READ,
    ),
    "responses events": (
        EVENTS,
        sse(
            {"type": "response.created", "response": {"model": "m", "usage": None}},
            {"type": "response.completed", "response": {"model": "m", "usage": RESPONSES}},
        ),
        WHOLE,
    ),
    "responses whole": (JSON, json.dumps({"object": "response", "model": "m", "usage": RESPONSES}).encode(), WHOLE),
    "gemini events": (
        EVENTS,
        sse(
            {"candidates": [], "modelVersion": "m", "usageMetadata": {"promptTokenCount": 13, "totalTokenCount": 13}},
            {"candidates": [], "modelVersion": "m", "usageMetadata": GEMINI},
        ),
        READ,
    ),
    "gemini array": (
        JSON,
        json.dumps([{"modelVersion": "m", "usageMetadata": {**GEMINI, "candidatesTokenCount": 1}}, {"usageMetadata": GEMINI}], indent=1).encode(),
        READ,
    ),
    "gemini of Code Assist": (EVENTS, sse({"response": {"modelVersion": "m", "usageMetadata": GEMINI}}), READ),
    "ollama lines": (
        LINES,
        b'{"model":"m","message":{"content":"x"},"done":false}\n{"model":"m","done":true,"prompt_eval_count":10,"eval_count":5}\n',
        Tokens(10, 5),
    ),
    "ollama generate": (JSON, b'{"model":"m","response":"{text}","done":true,"prompt_eval_count":10,"eval_count":5}', Tokens(10, 5)),
    "lines that do not say what they are": (
        "",
        b'{"model":"m","done":false}\n{"model":"m","done":true,"prompt_eval_count":10,"eval_count":5}',
        Tokens(10, 5),
    ),
    "events that do not say what they are": ("text/plain", sse({"model": "m", "usage": CHAT}), WHOLE),
    "events with CRLF": (EVENTS, sse({"model": "m", "usage": CHAT}).replace(b"\n", b"\r\n"), WHOLE),
}  # fmt: skip


def read(content_type: str, pieces: list[bytes]) -> tuple[set[str | None], Tokens, bool]:
    told: list[tuple[str | None, Tokens]] = []
    meter = TokenMeter(content_type, lambda model, tokens: told.append((model, tokens)))
    for piece in pieces:
        meter.feed(piece)
    known = meter.end()
    return {model for model, _ in told}, sum((tokens for _, tokens in told), Tokens()), known


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_however_it_is_cut(name: str) -> None:
    content_type, body, expected = ANSWERS[name]
    for size in (1, 7, 64, len(body)):
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        assert read(content_type, pieces) == ({"m"}, expected, True), size


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (EVENTS, sse({"model": "m", "choices": [{}]})),  # a stream that was not asked to tell
        (EVENTS, sse({"type": "response.created", "response": {"model": "m"}})),  # cut before its end
        (JSON, b'{"model":"m","choices":[]}'),
        (JSON, b'{"data":[{"id":"m"}]}'),  # a list of models
        (JSON, b'{"input_tokens":10}'),  # a count
        (JSON, b"{"),
        (JSON, b""),
        (EVENTS, b"data: {broken\n\n: comment\n\nretry: 5\n\n"),
        (EVENTS, b'data: {"usage":"a text","model":5}\n\n'),
        (JSON, b'{"message":' * 100_000),
        ("text/html", b"<html>"),
    ],
)
def test_what_tells_nothing(content_type: str, body: bytes) -> None:
    _, tokens, known = read(content_type, [body])
    assert (tokens, known) == (Tokens(), False)


START = {"type": "message_start", "message": {"type": "message", "model": "m", "content": [], "usage": ANTHROPIC}}
RUNNING = {"candidates": [{"content": {}}], "modelVersion": "m", "usageMetadata": GEMINI}


@pytest.mark.parametrize(
    ("body", "cut", "whole"),
    [
        (sse(START), False, False),  # all that comes after is billed too
        (sse(START, {"type": "message_delta", "usage": {"output_tokens": 5}}), True, True),
        (sse({"type": "response.in_progress", "response": {"model": "m", "usage": RESPONSES}}), False, False),
        (sse({"type": "response.completed", "response": {"model": "m", "usage": RESPONSES}}), True, True),
        (sse({"model": "m", "choices": [{"finish_reason": None}], "usage": CHAT}), False, True),
        (sse({"model": "m", "choices": [{"finish_reason": "stop"}], "usage": CHAT}), True, True),
        (sse({"model": "m", "choices": [], "usage": CHAT}), True, True),
        (sse(RUNNING), False, True),
        (sse({**RUNNING, "candidates": [{"finishReason": "STOP"}]}), True, True),
        (sse({"model": "m", "choices": [{"finish_reason": "stop"}]}), False, False),
    ],
)
def test_usage_is_known_once_it_is_final(body: bytes, cut: bool, whole: bool) -> None:
    for ended, known in ((False, cut), (True, whole)):
        meter = TokenMeter(EVENTS, lambda *_: None)
        meter.feed(body)
        assert meter.end(whole=ended) is known, ended


def test_tokens_beyond_what_can_be_stored_are_limited() -> None:
    body = json.dumps({"model": "m", "usage": {"prompt_tokens": 10**40, "completion_tokens": -(10**40)}}).encode()
    assert read(JSON, [body]) == ({"m"}, Tokens(2**53), True)


@pytest.mark.parametrize("wrap", [lambda part: (EVENTS, b"data: " + part + b"\n\n"), lambda part: (JSON, part)])
def test_of_what_is_too_long_only_the_end_is_kept(wrap: Any) -> None:
    text = "x" * (2 * metering.MOST_KEPT_BYTES)
    content_type, body = wrap(json.dumps({"output": text, "usage": RESPONSES, "model": "m"}).encode())
    meter = TokenMeter(content_type, lambda *said: told.append(said))
    told: list[tuple[str | None, Tokens]] = []
    for at in range(0, len(body), 65536):
        meter.feed(body[at : at + 65536])
        assert len(meter._kept) <= metering.MOST_KEPT_BYTES
    meter.end()
    assert told == [(None, WHOLE)]


@settings(max_examples=tries(200))
@given(st.sampled_from([EVENTS, LINES, JSON, ""]), st.lists(st.binary(max_size=200), max_size=5))
def test_nothing_that_passes_breaks_it(content_type: str, pieces: list[bytes]) -> None:
    read(content_type, pieces)
    read(content_type, [b'data: {"usage":', *pieces, b"}\n\n"])
