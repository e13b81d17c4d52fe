"""From a request's path to the wire format that answers it, or to one of the few answers that need no script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from corral.testing.model import anthropic, gemini, ollama, openai_chat, openai_responses
from corral.testing.model.reading import Json
from corral.testing.model.wire import ModelRequest, WireFormat

MODEL = "fake-model"
COUNTED_TOKENS = 10
GEMINI_PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>\w+)$")
MODEL_PATH = re.compile(r"/v1/models/(?P<model>[^/]+)$")
WIRES = {
    "/messages": anthropic.WIRE,
    "/chat/completions": openai_chat.WIRE,
    "/responses": openai_responses.WIRE,
    "/api/chat": ollama.CHAT,
    "/api/generate": ollama.GENERATE,
}
FIXED: dict[str, Json] = {
    "/messages/count_tokens": {"input_tokens": COUNTED_TOKENS},
    "/responses/input_tokens": {"object": "response.input_tokens", "input_tokens": COUNTED_TOKENS},
    "/api/show": {
        "capabilities": ["completion", "tools"],
        "details": {"family": "fake", "format": "gguf"},
        "model_info": {"general.architecture": "fake", "fake.context_length": 32768},
    },
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # names in lower case
    body: Json  # empty where there was none, or none in JSON


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer that needs no script."""

    status: int = 200
    body: Json


def route(request: Request) -> tuple[WireFormat, ModelRequest] | Reply:
    if request.method != "POST":
        return _listing(request.path)
    gemini_path = GEMINI_PATH.search(request.path)
    if gemini_path:
        return _gemini(request, gemini_path["model"], gemini_path["verb"])
    for ending, wire in WIRES.items():
        if request.path.endswith(ending):
            return wire, wire.read(request.body)
    for ending, body in FIXED.items():
        if request.path.endswith(ending):
            return Reply(body=body)
    return _nothing_at(request.path)


def _gemini(request: Request, model: str, verb: str) -> tuple[WireFormat, ModelRequest] | Reply:
    if verb == "countTokens":
        return Reply(body={"totalTokens": COUNTED_TOKENS})
    if verb not in {"generateContent", "streamGenerateContent"}:
        return Reply(status=404, body=gemini.error(404, f"no such method: {verb}"))
    stream = verb == "streamGenerateContent"
    return gemini.WIRE, replace(gemini.WIRE.read(request.body), model=model, stream=stream)


def _listing(path: str) -> Reply:
    named = MODEL_PATH.search(path)
    if named:
        return Reply(body=_model(named["model"]))
    if path.endswith("/v1beta/models"):
        methods = ["generateContent", "streamGenerateContent", "countTokens"]
        return Reply(body={"models": [{"name": f"models/{MODEL}", "supportedGenerationMethods": methods}]})
    if path.endswith("/models"):
        # One list for the readers of OpenAI, Anthropic, and codex, which looks for `models`.
        page = {"has_more": False, "first_id": MODEL, "last_id": MODEL}
        return Reply(body={"object": "list", "data": [_model(MODEL)], "models": [], **page})
    if path in {"/api/tags", "/api/ps"}:
        return Reply(body={"models": [_ollama_model()]})
    if path == "/api/version":
        return Reply(body={"version": "0.13.5"})
    return Reply(body={}) if path == "/" else _nothing_at(path)


def _model(name: str) -> Json:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "2025-01-01T00:00:00Z",
        "owned_by": "corral",
    }


def _ollama_model() -> Json:
    name = f"{MODEL}:latest"
    details = {"family": "fake", "format": "gguf"}
    dated = {"modified_at": "2025-01-01T00:00:00Z", "expires_at": "2125-01-01T00:00:00Z"}
    return {"name": name, "model": name, "size": 1, "digest": "0" * 64, "details": details, **dated}


def _nothing_at(path: str) -> Reply:
    return Reply(status=404, body=openai_chat.error(404, f"the scripted model has nothing at {path}"))
