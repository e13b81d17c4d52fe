"""One session from its prompt to its end, with tools or without."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, cast

from pydantic_ai import exceptions as raised
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model

from corral.boxed.loop import text_mode, tool_mode
from corral.boxed.loop.conversation import ModelConversation
from corral.boxed.loop.event_lines import tell
from corral.boxed.loop.memory import StoredMessages
from corral.boxed.loop.settings import KEY, LoopSettings
from corral.boxed.loop.tools import LoopToolbox
from corral.boxed.loop.workspace import LoopWorkspace
from corral.model import ErrorClass, Failure
from corral.model.error_classes import class_of_status, class_of_words
from corral.model.events import Ended, Limited, Said, Started
from corral.version import __version__

#: The first that fits decides; categories come from the provider's status and its own words.
CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (raised.ModelAuthenticationError, "auth"),
    (raised.ModelNotFoundError, "not_found"),
    (raised.ModelContextWindowExceededError, "context_too_long"),
    (raised.ModelRateLimitError, "rate_limit"),
    (raised.ModelQuotaExceededError, "rate_limit"),
    (raised.ModelUnavailableError, "overloaded"),
    (raised.ModelServerError, "overloaded"),
    (raised.ModelConnectionError, "network"),
    (raised.ContentFilterError, "refused"),
    (raised.UnexpectedModelBehavior, "bad_output"),
)
#: corral's own words, from outside the box: nobody answered there.
OUTSIDE = re.compile(r"^corral: .* (could not be reached|is not known|showed no certificate|speaks no TLS)")
NO_TOOLS = re.compile(
    r"(not|n't) (currently )?support\w* .*\b(tool|function)|\b(tool|function)\w*\b.*(not (be )?supported|unsupported)"
    r"|endpoints found that support tool|enable-auto-tool-choice"
)


async def run(settings: LoopSettings, prompt: str, folder: Path, home: Path) -> Ended:
    """Do what the prompt says, or continue an earlier session; report everything but the last message."""
    place = LoopWorkspace(folder)
    memory = StoredMessages(home, settings.session)
    is_text = settings.mode == "text" or (settings.mode == "auto" and _was_text(memory.messages))
    goes_on = bool(memory.messages)
    said = text_mode.opening(place, prompt, settings.most_output) if is_text and not goes_on else prompt
    memory.begin(said, text_mode.INSTRUCTIONS if is_text else tool_mode.INSTRUCTIONS, settings.images)
    tell(Started(memory.session, settings.model, __version__))
    talk = ModelConversation(open_model(settings), memory, settings)
    try:
        if not is_text:
            toolbox = LoopToolbox(place, most_output=settings.most_output, read_only=settings.read_only)
            try:
                return await tool_mode.work(talk, toolbox, settings)
            except raised.ModelHTTPError as error:
                if settings.mode == "tools" or not has_no_tools(error):
                    raise
            tell(Said("This model cannot call tools: it is shown files and answers with changes instead."))
            asked = _prompts(memory.messages)
            memory.messages.clear()
            memory.begin(text_mode.opening(place, asked, settings.most_output), text_mode.INSTRUCTIONS)
        return await text_mode.work(talk, place, settings)
    except (raised.AgentRunError, raised.UserError, OSError) as error:
        failure = provider_failure(error, settings)
        if failure.kind == "rate_limit":
            tell(limited_event(error))
        return Ended(ok=False, text=failure.message, error=failure)


def _prompts(messages: list[ModelMessage]) -> str:
    """Return what was asked so far: a session that was interrupted holds the task before the prompt to continue."""
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return "\n\n".join(
        part.content for part in parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)
    )


def _was_text(messages: list[ModelMessage]) -> bool:
    """Tell whether the session continued without tools before it was interrupted."""
    return any(isinstance(each, ModelRequest) and each.instructions == text_mode.INSTRUCTIONS for each in messages)


def open_model(settings: LoopSettings) -> Model:
    match settings.provider:
        case "ollama":
            return _ollama(settings)
        case "openai":
            return _openai(settings)
        case "anthropic":
            return _anthropic(settings)
        case "google":
            return _google(settings)


def _ollama(settings: LoopSettings) -> Model:
    from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

    return OllamaModel(settings.model, provider=OllamaProvider(base_url=settings.base_url, api_key=settings.key))


def _openai(settings: LoopSettings) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    provider = OpenAIProvider(base_url=settings.base_url, api_key=settings.key)
    kind = OpenAIResponsesModel if settings.responses else OpenAIChatModel
    return kind(settings.model, provider=provider)


def _anthropic(settings: LoopSettings) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    return AnthropicModel(settings.model, provider=AnthropicProvider(base_url=settings.base_url, api_key=settings.key))


def _google(settings: LoopSettings) -> Model:
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

    return GoogleModel(settings.model, provider=GoogleProvider(base_url=settings.base_url, api_key=settings.key))


def provider_failure(error: Exception, settings: LoopSettings) -> Failure:
    """Classify what went wrong with a request."""
    words = provider_message(error)
    kind: ErrorClass | None = next((kind for category, kind in CLASSES if isinstance(error, category)), None)
    if isinstance(error, raised.ModelHTTPError) and kind is None:
        kind = _by_status(error.status_code, words)
    if kind == "overloaded" and OUTSIDE.search(words):
        kind = "network"
    if kind == "network" and re.search(r"certificate|\bssl\b|\btls\b", _chain(error)):
        kind = "tls"
    return Failure(kind or "crash", words, _hint(kind, settings))


def _by_status(status: int, words: str) -> ErrorClass:
    if kind := class_of_status(status):
        return kind
    # What an endpoint calls a bad request stays one: the same again would end the same.
    return "context_too_long" if class_of_words(words) == "context_too_long" else "refused"


def limited_event(error: Exception) -> Limited:
    """Return until when a provider refuses requests, if it says so."""
    wait = error.retry_after if isinstance(error, raised.ModelAPIError) else None
    return Limited(provider_message(error), until=time.time() + wait if wait is not None else None)


def has_no_tools(error: Exception) -> bool:
    """Tell whether an endpoint refused a request because its model cannot call tools."""
    refused = isinstance(error, raised.ModelHTTPError) and 400 <= error.status_code < 502
    return refused and bool(NO_TOOLS.search(provider_message(error).lower()))


def provider_message(error: Exception) -> str:
    """Return the provider's own words, wherever they are."""
    body: Any = error.body if isinstance(error, raised.ModelHTTPError) else None
    for _ in range(2):
        if isinstance(body, dict):
            inner = cast("dict[str, Any]", body)
            body = inner.get("error") or inner.get("message") or inner.get("detail") or str(inner)
    return body if isinstance(body, str) else str(error) or type(error).__name__


def _chain(error: BaseException) -> str:
    words: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(words) < 10:
        words.append(f"{type(cause).__name__} {cause}")
        cause = cause.__cause__ or cause.__context__
    return " ".join(words).lower()


def _hint(kind: ErrorClass | None, settings: LoopSettings) -> str:
    address = settings.base_url or f"the API of {settings.provider}"
    hints: dict[ErrorClass | None, str] = {
        "auth": f"is {KEY[settings.provider][0]} right?",
        "not_found": f"ollama pull {settings.model}"
        if settings.provider == "ollama"
        else f"is the model's name right? --agent {settings.provider}:MODEL",
        "context_too_long": "give it a smaller task, or a model with a larger context",
        "network": f"does {address} answer from here?" + (" ollama serve" if settings.provider == "ollama" else ""),
        "tls": f"the certificate of {address} is not trusted here",
    }
    return hints.get(kind, "")
