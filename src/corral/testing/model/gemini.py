"""The Gemini API; the model and whether to stream are in its path."""

from __future__ import annotations

import json
from collections.abc import Iterator

from corral.testing.model.reading import Json, items, part, text_of
from corral.testing.model.tools import OfferedTool, Offers
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat, event, pieces

ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}
# What the gemini program asks for in its side requests, all in one: who speaks next, and which model to take.
SIDE_JSON = {
    "next_speaker": "user",
    "reasoning": "scripted",
    "complexity_score": 10,
    "complexity_reasoning": "scripted",
    "model_choice": "flash",
}


def read(body: Json) -> ModelRequest:
    request = part(body, "request") or body  # the Code Assist variant wraps it
    wants_json = part(request, "generationConfig").get("responseMimeType") == "application/json"
    return ModelRequest(
        history=sum(content.get("role") == "model" for content in items(request, "contents")),
        offers=_offers(request),
        side_text=json.dumps(SIDE_JSON) if wants_json else None,
    )


def whole(answer: ModelAnswer) -> Json:
    return _response(answer, _parts(answer), "STOP")


def chunks(answer: ModelAnswer) -> Iterator[str]:
    parts = [small for large in _parts(answer) for small in _in_pieces(large)]
    for small in parts[:-1]:
        yield event(_response(answer, [small], None))
    yield event(_response(answer, parts[-1:], "STOP"))


def error(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": ERROR_STATUSES.get(status, "INTERNAL")}}


def _offers(request: Json) -> Offers:
    return {
        text_of(function, "name"): OfferedTool(
            schema=part(function, "parametersJsonSchema") or part(function, "parameters")
        )
        for tool in items(request, "tools")
        for function in items(tool, "functionDeclarations")
    }


def _parts(answer: ModelAnswer) -> list[Json]:
    parts: list[Json] = []
    if answer.thinking:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.speaks:
        parts.append({"text": answer.text})
    for index, use in enumerate(answer.uses):
        call = {"id": answer.call_id(index), "name": use.name, "args": dict(use.arguments)}
        parts.append({"functionCall": call})
    return parts


def _in_pieces(large: Json) -> list[Json]:
    return [{**large, "text": piece} for piece in pieces(text_of(large, "text"))] or [large]


def _response(answer: ModelAnswer, parts: list[Json], finish_reason: str | None) -> Json:
    finish = {"finishReason": finish_reason} if finish_reason else {}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, **finish}],
        "usageMetadata": {
            "promptTokenCount": answer.usage.whole_input,
            "cachedContentTokenCount": answer.usage.cache_read,
            "candidatesTokenCount": answer.usage.output,
            "totalTokenCount": answer.usage.whole_input + answer.usage.output,
        },
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


WIRE = WireFormat(read=read, whole=whole, chunks=chunks, error=error)
