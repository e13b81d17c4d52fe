"""From what a provider answers to a class of failure that can be acted on."""

from __future__ import annotations

import re
import time
from typing import Any, cast

from pydantic_ai import exceptions as raised

from corral.boxed.loop.settings import KEY, LoopSettings
from corral.model import ErrorClass, Failure
from corral.model.error_classes import class_of_status, class_of_words
from corral.model.events import Limited

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


def failure(error: Exception, settings: LoopSettings) -> Failure:
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
    """Say until when a provider wants to be left alone, where it says so."""
    wait = error.retry_after if isinstance(error, raised.ModelAPIError) else None
    return Limited(provider_message(error), until=time.time() + wait if wait is not None else None)


def has_no_tools(error: Exception) -> bool:
    """Tell whether an endpoint refused a request because its model cannot call tools."""
    refused = isinstance(error, raised.ModelHTTPError) and 400 <= error.status_code < 502
    return refused and bool(NO_TOOLS.search(provider_message(error).lower()))


def provider_message(error: Exception) -> str:
    """Return the provider's own words, wherever they stand."""
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
