"""The Ollama API: chat and generate, streaming lines of JSON by default."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from corral.testing.model.openai_chat import offered_functions
from corral.testing.model.reading import Json, items, text_of
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat, pieces

Shape = Callable[[Json], Json]  # what a message says -> the fields of a response
LINES = "application/x-ndjson"


def read(body: Json) -> ModelRequest:
    return ModelRequest(
        model=text_of(body, "model"),
        history=sum(message.get("role") == "assistant" for message in items(body, "messages")),
        offers=offered_functions(body),
        stream=body.get("stream") is not False,
    )


def error(status: int, message: str) -> Json:
    return {"error": message or f"status {status}"}


def _chat(said: Json) -> Json:
    return {"message": {"role": "assistant", "content": "", **said}}


def _generate(said: Json) -> Json:
    return {"response": said.get("content", ""), **({"thinking": said["thinking"]} if "thinking" in said else {})}


def _wire(shape: Shape) -> WireFormat:
    def whole(answer: ModelAnswer) -> Json:
        said: Json = {"content": answer.text}
        if answer.thinking:
            said["thinking"] = answer.thinking
        if answer.uses:
            said["tool_calls"] = _tool_calls(answer)
        return {**_head(answer), **shape(said), **_tail(answer)}

    def chunks(answer: ModelAnswer) -> Iterator[str]:
        for said in _saying(answer):
            yield _line({**_head(answer), **shape(said), "done": False})
        yield _line({**_head(answer), **shape({}), **_tail(answer)})

    return WireFormat(read=read, whole=whole, chunks=chunks, error=error, stream_type=LINES)


def _saying(answer: ModelAnswer) -> Iterator[Json]:
    for piece in pieces(answer.thinking):
        yield {"thinking": piece}
    for piece in pieces(answer.text):
        yield {"content": piece}
    if answer.uses:
        yield {"tool_calls": _tool_calls(answer)}


def _tool_calls(answer: ModelAnswer) -> list[Json]:
    return [{"function": {"name": use.name, "arguments": dict(use.arguments)}} for use in answer.uses]


def _head(answer: ModelAnswer) -> Json:
    created = datetime.fromtimestamp(answer.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"model": answer.model, "created_at": created}


def _tail(answer: ModelAnswer) -> Json:
    durations = dict.fromkeys(("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), 1000)
    counts = {"prompt_eval_count": answer.usage.whole_input, "eval_count": answer.usage.output}
    return {"done": True, "done_reason": "stop", **durations, **counts}


def _line(data: Json) -> str:
    return json.dumps(data) + "\n"


CHAT = _wire(_chat)
GENERATE = _wire(_generate)
