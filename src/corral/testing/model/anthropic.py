"""The Anthropic messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator

from corral.testing.model.reading import Json, items, part, text_of
from corral.testing.model.tools import OfferedTool
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat, event, pieces

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
SIGNATURE = "c2lnbmF0dXJl"


def read(body: Json) -> ModelRequest:
    return ModelRequest(
        model=text_of(body, "model"),
        history=sum(message.get("role") == "assistant" for message in items(body, "messages")),
        offers={text_of(tool, "name"): OfferedTool(schema=part(tool, "input_schema")) for tool in items(body, "tools")},
        stream=body.get("stream") is True,
    )


def whole(answer: ModelAnswer) -> Json:
    return {**_message(answer), "content": _blocks(answer), "stop_reason": _stop_reason(answer)}


def chunks(answer: ModelAnswer) -> Iterator[str]:
    # The real API knows the output only at the end: it starts with a token and corrects it in message_delta.
    started = {**_message(answer), "usage": {**_usage(answer), "output_tokens": 1}}
    yield _event({"type": "message_start", "message": started})
    for index, block in enumerate(_blocks(answer)):
        yield _event({"type": "content_block_start", "index": index, "content_block": _empty(block)})
        for delta in _deltas(block):
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": stop, "usage": _usage(answer)})
    yield _event({"type": "message_stop"})


def error(status: int, message: str) -> Json:
    return {"type": "error", "error": {"type": ERROR_TYPES.get(status, "api_error"), "message": message}}


def _event(data: Json) -> str:
    return event(data, data["type"])


def _message(answer: ModelAnswer) -> Json:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def _blocks(answer: ModelAnswer) -> list[Json]:
    blocks: list[Json] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": SIGNATURE})
    if answer.speaks:
        blocks.append({"type": "text", "text": answer.text})
    for index, use in enumerate(answer.uses):
        identity = f"toolu_{answer.id}_{index}"
        blocks.append({"type": "tool_use", "id": identity, "name": use.name, "input": dict(use.arguments)})
    return blocks


def _empty(block: Json) -> Json:
    """The block as its start announces it."""
    match block["type"]:
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "text":
            return {**block, "text": ""}
        case _:
            return {**block, "input": {}}


def _deltas(block: Json) -> Iterator[Json]:
    match block["type"]:
        case "thinking":
            for piece in pieces(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for piece in pieces(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case _:
            for piece in pieces(json.dumps(block["input"])):
                yield {"type": "input_json_delta", "partial_json": piece}


def _stop_reason(answer: ModelAnswer) -> str:
    return "tool_use" if answer.uses else "end_turn"


def _usage(answer: ModelAnswer) -> Json:
    return {
        "input_tokens": answer.usage.input,
        "cache_creation_input_tokens": answer.usage.cache_write,
        "cache_read_input_tokens": answer.usage.cache_read,
        "output_tokens": answer.usage.output,
    }


WIRE = WireFormat(read=read, whole=whole, chunks=chunks, error=error)
