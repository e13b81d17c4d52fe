"""The OpenAI responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from corral.testing.model.openai_chat import error
from corral.testing.model.reading import Json, items, part, text_of
from corral.testing.model.tools import OfferedTool, Offers, ToolUse
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat, event, pieces

CALL_TYPES = ("function_call", "custom_tool_call", "local_shell_call")


def read(body: Json) -> ModelRequest:
    return ModelRequest(
        model=text_of(body, "model"),
        history=_history(items(body, "input")),
        offers=_offers(body),
        stream=body.get("stream") is True,
    )


def _history(said: list[Json]) -> int:
    """Count the runs of what the model said; calls of one answer may also be apart, each before its result."""
    turns, speaking, answers = 0, False, set[str]()
    for item in said:
        if not _is_of_model(item):
            speaking = False
            continue
        answer = text_of(item, "call_id").rpartition("_")[0]
        if not speaking and answer not in answers:
            turns += 1
        if answer:
            answers.add(answer)
        speaking = True
    return turns


def _is_of_model(item: Json) -> bool:
    kind = item.get("type", "message")
    return kind in CALL_TYPES or kind == "reasoning" or (kind == "message" and item.get("role") == "assistant")


def _offers(body: Json) -> Offers:
    offers: dict[str, OfferedTool] = {}
    for tool in items(body, "tools"):
        kind = text_of(tool, "type")
        name = text_of(tool, "name") or kind
        if kind == "namespace":  # codex offers the tools of an MCP server so
            for inner in items(tool, "tools"):
                short = text_of(inner, "name")
                offers[f"{name}__{short}"] = OfferedTool(schema=part(inner, "parameters"), namespace=name, name=short)
        else:
            offers[name] = OfferedTool(schema=part(tool, "parameters"), kind=kind)
    return offers


def whole(answer: ModelAnswer) -> Json:
    return {**_head(answer), "status": "completed", "output": _output(answer), "usage": _usage(answer)}


def chunks(answer: ModelAnswer) -> Iterator[str]:
    for number, data in zip(count(), _events(answer), strict=False):
        yield event({**data, "sequence_number": number}, data["type"])


def _events(answer: ModelAnswer) -> Iterator[Json]:
    yield {"type": "response.created", "response": _head(answer)}
    for index, item in enumerate(_output(answer)):
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        for data in _filling(item):
            yield {**data, "item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole(answer)}


def _head(answer: ModelAnswer) -> Json:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "status": "in_progress",
        "model": answer.model,
        "output": [],
        "error": None,
        "usage": None,
    }


def _output(answer: ModelAnswer) -> list[Json]:
    output: list[Json] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        output.append({"type": "reasoning", "id": f"rs_{answer.id}", "summary": summary})
    if answer.speaks:
        message = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [_text_part(answer.text)]})
    output.extend(_call(use, answer.call_id(index)) for index, use in enumerate(answer.uses))
    return output


def _call(use: ToolUse, call_id: str) -> Json:
    head = {"id": f"item_{call_id}", "call_id": call_id, "status": "completed"}
    arguments = json.dumps(dict(use.arguments))
    match use.offer.kind:
        case "custom":
            return {
                **head,
                "type": "custom_tool_call",
                "name": use.name,
                "input": use.arguments.get("input", arguments),
            }
        case "local_shell":
            action: Json = {"type": "exec", "command": use.arguments["command"], "env": {}}
            return {**head, "type": "local_shell_call", "action": action}
        case _:
            namespace = {"namespace": use.offer.namespace} if use.offer.namespace else {}
            name = use.offer.name or use.name
            return {**head, "type": "function_call", "name": name, "arguments": arguments, **namespace}


def _empty(item: Json) -> Json:
    """The item as its start announces it."""
    match item["type"]:
        case "reasoning":
            return {**item, "summary": []}
        case "message":
            return {**item, "content": [], "status": "in_progress"}
        case "function_call":
            return {**item, "arguments": "", "status": "in_progress"}
        case _:
            return {**item, "status": "in_progress"}


def _filling(item: Json) -> Iterator[Json]:
    match item["type"]:
        case "reasoning":
            yield from _summary_events(item["summary"][0]["text"])
        case "message":
            yield from _text_events(item["content"][0]["text"])
        case "function_call":
            for piece in pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", "delta": piece}
            yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        case _:
            pass  # other items have no deltas


def _summary_events(text: str) -> Iterator[Json]:
    at = {"summary_index": 0}
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}}
    for piece in pieces(text):
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **at, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **at, "part": {"type": "summary_text", "text": text}}


def _text_events(text: str) -> Iterator[Json]:
    at = {"content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": _text_part("")}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **at, "delta": piece}
    yield {"type": "response.output_text.done", **at, "text": text}
    yield {"type": "response.content_part.done", **at, "part": _text_part(text)}


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _usage(answer: ModelAnswer) -> Json:
    usage = answer.usage
    return {
        "input_tokens": usage.whole_input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.whole_input + usage.output,
    }


WIRE = WireFormat(read=read, whole=whole, chunks=chunks, error=error)
