"""The OpenAI chat completions API."""

from __future__ import annotations

import json
from collections.abc import Iterator

from corral.testing.model.reading import Json, items, part, text_of
from corral.testing.model.tools import OfferedTool, Offers
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat, event, pieces

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
END = "data: [DONE]\n\n"


def read(body: Json) -> ModelRequest:
    return ModelRequest(
        model=text_of(body, "model"),
        history=sum(message.get("role") == "assistant" for message in items(body, "messages")),
        offers=offered_functions(body),
        stream=body.get("stream") is True,
    )


def offered_functions(body: Json) -> Offers:
    functions = [part(tool, "function") for tool in items(body, "tools")]
    return {
        text_of(function, "name"): OfferedTool(schema=part(function, "parameters"))
        for function in functions
        if function
    }


def whole(answer: ModelAnswer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text if answer.speaks else None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.uses:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def chunks(answer: ModelAnswer) -> Iterator[str]:
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for piece in pieces(answer.thinking):
        yield _chunk(answer, {"reasoning_content": piece})
    for piece in pieces(answer.text):
        yield _chunk(answer, {"content": piece})
    for index, call in enumerate(_tool_calls(answer)):
        function = call["function"]
        opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield _chunk(answer, {"tool_calls": [opening]})
        for piece in pieces(function["arguments"]):
            yield _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(answer, {}, _finish_reason(answer))
    yield event({**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)})
    yield END


def error(status: int, message: str) -> Json:
    kind = ERROR_TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "code": None, "param": None}}


def _head(answer: ModelAnswer, kind: str) -> Json:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": answer.created, "model": answer.model}


def _chunk(answer: ModelAnswer, delta: Json, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({**_head(answer, "chat.completion.chunk"), "choices": [choice]})


def _tool_calls(answer: ModelAnswer) -> list[Json]:
    return [
        {
            "id": answer.call_id(index),
            "type": "function",
            "function": {"name": use.name, "arguments": json.dumps(dict(use.arguments))},
        }
        for index, use in enumerate(answer.uses)
    ]


def _finish_reason(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.uses else "stop"


def _usage(answer: ModelAnswer) -> Json:
    usage = answer.usage
    return {
        "prompt_tokens": usage.whole_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.whole_input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


WIRE = WireFormat(read=read, whole=whole, chunks=chunks, error=error)
