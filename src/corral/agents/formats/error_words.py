"""What went wrong, in the classes that the engine acts on: from an HTTP status first, from words last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from corral.model import NOT_STARTED, NOT_STARTED_HINT, ErrorClass, Failure
from corral.model.events import AgentEvent, Ended, Limited

MOST_WORDS = 2000
_STATUS = re.compile(
    r"(?:status(?:\s*code)?|http(?:/\d(?:\.\d)?)?|error|code|api error)[\"'\]]?[\s:=(\[\"']{1,3}([45]\d\d)\b"
    r"|\b([45]\d\d) status code"
    r"|^[\[(\"'\s]*([45]\d\d)\b",
    re.IGNORECASE | re.MULTILINE,
)
#: Looked through in this order: what stands first is the more telling.
_WORDS: tuple[tuple[ErrorClass, tuple[str, ...]], ...] = (
    ("context_too_long", ("prompt is too long", "context window", "context length", "contextwindowexceeded",
                          "maximum context", "token limit", "input token count exceeds")),
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


def error_class(status: int | None, text: str) -> ErrorClass:
    """Tell the class of a failure; `status` is the provider's, where it is known."""
    match status:
        case 401 | 403:
            return "auth"
        case 404:
            return "not_found"
        case 429:
            return "rate_limit"
        case 500 | 502 | 503 | 504 | 529:
            return "overloaded"
        case _:
            words = text.lower()
    for kind, signs in _WORDS:
        if any(sign in words for sign in signs):
            return kind
    return "crash"


def status_in(text: str) -> int | None:
    """Find the HTTP status in an error's words: `unexpected status 401 Unauthorized`, `[API Error: 429 ...]`."""
    found = _STATUS.search(text)
    return int(next(group for group in found.groups() if group)) if found else None


def own_retries(settings: Mapping[str, str]) -> int:
    """Return how often a program may ask its provider again by itself; the engine tries again after that."""
    text = settings.get("AGENT_RETRIES", "")
    return min(int(text), 10) if text.isdecimal() and text.isascii() else 2


def failed(
    status: int | None, message: str, *, text: str = "", hints: Mapping[ErrorClass, str] | None = None
) -> list[AgentEvent]:
    """Tell a bad ending whose cause the program told; a limit is told as such before."""
    message = message[:MOST_WORDS]
    kind = error_class(status if status is not None else status_in(message), message)
    limited: list[AgentEvent] = [Limited(message)] if kind == "rate_limit" else []
    return [*limited, Ended(ok=False, text=text, error=Failure(kind, message, (hints or {}).get(kind, "")))]


def ended_well(text: str, *, used_tools: bool, denied: Iterable[str] = ()) -> Ended:
    """Tell a good ending; one at which nothing was said and nothing done is none."""
    if text.strip() or used_tools:
        return Ended(ok=True, text=text, denied=tuple(denied))
    return Ended(ok=False, error=Failure("bad_output", "it ended without a word and without doing anything"))


def no_result(
    program: str, code: int, words: str, *, text: str = "", hints: Mapping[ErrorClass, str] | None = None
) -> list[AgentEvent]:
    """Tell the ending of a program that is gone without having said how it ended; `words` are its last ones."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    telling = next((line for line in reversed(lines) if error_class(status_in(line), line) != "crash"), None)
    reason = telling or (lines[-1] if lines else "")
    message = f"{program} ended with {code} and no result" + (f": {reason[:MOST_WORDS]}" if reason else "")
    kind = error_class(status_in(reason), reason)
    hint = (hints or {}).get(kind, "") or (NOT_STARTED_HINT if code in NOT_STARTED else "")
    limited: list[AgentEvent] = [Limited(reason[:MOST_WORDS])] if kind == "rate_limit" else []
    return [*limited, Ended(ok=False, text=text, error=Failure(kind, message, hint))]
