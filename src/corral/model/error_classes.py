"""The class of a failure, by the HTTP status of a provider or by its words; one table for agents and our own loop."""

from __future__ import annotations

from corral.model.values import ErrorClass

_STATUSES: dict[int, ErrorClass] = {
    401: "auth", 403: "auth", 404: "not_found", 413: "context_too_long", 429: "rate_limit",
}  # fmt: skip
#: In this order: the most telling first.
_WORDS: tuple[tuple[ErrorClass, tuple[str, ...]], ...] = (
    ("context_too_long", ("prompt is too long", "context window", "context length", "context size",
                          "contextwindowexceeded", "maximum context", "token limit", "too many tokens",
                          "input token count exceeds")),
    ("auth", ("invalid api key", "incorrect api key", "api key not valid", "/login", "authentication",
              "unauthorized", "not logged in", "must specify the gemini_api_key", "set an auth method",
              "no authentication", "missing environment variable", "api key is missing", "no api key",
              "missing api key", "key expired", "key has expired", "token expired", "token has expired")),
    ("rate_limit", ("usage limit", "rate limit", "ratelimit", "rate_limit", "quota", "too many requests",
                    "resource_exhausted", "credit balance", "rate-limited", "session limit", "weekly limit",
                    "limit reached", "hit your limit", "limit will reset")),
    ("not_found", ("model not found", "modelnotfound", "model_not_found", "unknown model", "no such model",
                   "not a valid model")),
    ("refused", ("content_filter", "content policy", "usage policy", "safety reasons", "refused to answer",
                 "prohibited_content")),
    ("tls", ("certificate", "ssl", "tls handshake")),
    ("overloaded", ("overloaded", "internal server error", "internalservererror", "service unavailable",
                    "serviceunavailable", "bad gateway", "high demand")),
    ("network", ("connection", "econn", "enotfound", "eai_again", "fetch failed", "timed out", "timeout",
                 "stream disconnected", "socket hang up", "network error", "error sending request",
                 "error: terminated", "could not connect", "cannot connect", "unable to connect")),
)  # fmt: skip


def class_of_status(status: int | None) -> ErrorClass | None:
    """Return the class that a provider's HTTP status alone decides."""
    if status is None:
        return None
    return "overloaded" if status >= 500 else _STATUSES.get(status)


def class_of_words(text: str) -> ErrorClass | None:
    """Return the class that an error's words speak of."""
    words = text.lower()
    return next((kind for kind, signs in _WORDS if any(sign in words for sign in signs)), None)
