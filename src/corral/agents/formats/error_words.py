"""What went wrong, in the classes that the engine acts on: from an HTTP status first, from words last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from corral.model import NOT_STARTED, NOT_STARTED_HINT, ErrorClass, Failure
from corral.model.error_classes import class_of_status, class_of_words
from corral.model.events import AgentEvent, Ended, Limited
from corral.model.missing_programs import NOISE, hint_for_lacking, lacking_part, telling_line

MOST_WORDS = 2000
_STATUS = re.compile(
    r"(?:status(?:\s*code)?|http(?:/\d(?:\.\d)?)?|error|code|api error)[\"'\]]?[\s:=(\[\"']{1,3}([45]\d\d)\b"
    r"|\b([45]\d\d) status code"
    r"|^[\[(\"'\s]*([45]\d\d)\b",
    re.IGNORECASE | re.MULTILINE,
)


def error_class(status: int | None, text: str) -> ErrorClass:
    """Return the class of a failure; `status` is the provider's, where it is known."""
    return class_of_status(status) or class_of_words(text) or "crash"


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
    """Report a bad ending with the cause that the program named; a limit is reported before it."""
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
    lines = [line.strip() for line in words.splitlines() if not NOISE.match(line)]
    said = telling_line(words)
    telling = next((line for line in reversed(lines) if error_class(status_in(line), line) != "crash"), None)
    if telling in (None, said) and (part := lacking_part(said)):
        message = f"{program} ended with {code} and no result: {said[:MOST_WORDS]}"
        return [Ended(ok=False, text=text, error=Failure("not_found", message, hint_for_lacking(part)))]
    reason = telling or said
    message = f"{program} ended with {code} and no result" + (f": {reason[:MOST_WORDS]}" if reason else "")
    kind = error_class(status_in(reason), reason)
    hint = (hints or {}).get(kind, "") or (NOT_STARTED_HINT if code in NOT_STARTED else "")
    limited: list[AgentEvent] = [Limited(reason[:MOST_WORDS])] if kind == "rate_limit" else []
    return [*limited, Ended(ok=False, text=text, error=Failure(kind, message, hint))]
