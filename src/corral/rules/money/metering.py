"""How much a model's answer cost in tokens, read from its bytes as they pass: every wire format, bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from corral.model import Tokens

MOST_KEPT_BYTES = 4 << 20  #: of one event, line or document; of a longer one only the end is kept, where usage is
END_BYTES = 64 << 10

#: Events that report usage before it is final.
EARLY = ("message_start", "response.created", "response.in_progress", "response.queued")
_FINISHED = re.compile(rb'"finish_?[rR]eason"\s*:\s*"')

Metered = Callable[[str | None, Tokens], None]  #: the model, and what is to be added to the sum

BodyShape = Literal["events", "lines", "whole"]  #: how a provider sends its answer


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ProviderUsage(Struct):
    """What providers call it; each fills some of it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    input_tokens_details: _Details | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    promptTokenCount: int | None = None  # noqa: N815 -- as Gemini writes it
    candidatesTokenCount: int | None = None  # noqa: N815
    thoughtsTokenCount: int | None = None  # noqa: N815
    toolUsePromptTokenCount: int | None = None  # noqa: N815
    cachedContentTokenCount: int | None = None  # noqa: N815


class _AnswerPart(Struct):
    """One event, line or document, of any provider; what stands for an answer, or wraps one."""

    type: str | None = None
    model: str | None = None
    modelVersion: str | None = None  # noqa: N815
    usage: _ProviderUsage | None = None
    usageMetadata: _ProviderUsage | None = None  # noqa: N815
    message: Raw = Raw(b"")  # Anthropic's first event; a text elsewhere
    response: Raw = Raw(b"")  # OpenAI's last event, Gemini's Code Assist; a text for Ollama
    choices: Raw = Raw(b"")
    candidates: Raw = Raw(b"")
    done: bool | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None


_PART = msgspec.json.Decoder(_AnswerPart)
_PARTS = msgspec.json.Decoder(list[_AnswerPart])
_USAGE = msgspec.json.Decoder(_ProviderUsage)
UNREADABLE = (ValueError, OverflowError, RecursionError)
_NAMED = re.compile(rb'"(?:usage|usageMetadata)"\s*:\s*(\{)')


class TokenMeter:
    """Reads one answer. `metered` gets additions as soon as they are known: sum them up over all answers."""

    def __init__(self, content_type: str, metered: Metered) -> None:
        self._metered = metered
        self._how: BodyShape | None = _how(content_type)
        self._first = b""  # until it can be seen what comes
        self._kept, self._cut = bytearray(), False
        self._model: str | None = None
        self._known, self._reported = Tokens(), Tokens()
        self._said = False
        self._early = self._final = False  # of the last usage, and of any

    def feed(self, piece: bytes) -> None:
        if self._how is None:
            piece, self._first = self._first + piece, b""
            self._how = _guess(piece)
            if self._how is None:
                self._first = piece
                return
        if self._how == "whole":
            self._keep(piece)
            return
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._keep(line)
            self._close_line()
        self._keep(rest)
        self._tell()

    def end(self, *, whole: bool = True) -> bool:
        """Read what is left; return whether all that the answer used is known. `whole`: it came to its end."""
        if self._first:  # too short to hold anything
            return False
        if self._how == "whole":
            self._document()
        else:
            self._close_line()
        self._tell()
        return self._said and (self._final or (whole and not self._early))

    def _keep(self, piece: bytes) -> None:
        self._kept += piece
        if len(self._kept) > MOST_KEPT_BYTES:
            del self._kept[:-END_BYTES]
            self._cut = True

    def _take(self) -> tuple[bytes, bool]:
        taken = bytes(self._kept), self._cut
        self._kept.clear()
        self._cut = False
        return taken

    def _close_line(self) -> None:
        line, cut = self._take()
        line = line.strip()
        if cut:
            self._end_of(line)
            return
        if self._how == "events":
            name, _, line = line.partition(b":")
            if name != b"data":
                return
        self._part(line.strip())

    def _document(self) -> None:
        text, cut = self._take()
        text = text.strip()
        if cut:
            self._end_of(text)
        elif text.startswith(b"["):
            try:
                parts = _PARTS.decode(text)
            except UNREADABLE:
                return self._end_of(text[-END_BYTES:])
            for part in parts:
                self._read(part)
        elif not self._part(text) and b"\n" in text:
            for line in text.splitlines():
                self._part(line.strip())
        return None

    def _part(self, text: bytes, around: _AnswerPart | None = None) -> bool:
        if not text.startswith(b"{"):
            return False
        try:
            self._read(_PART.decode(text), around)
        except UNREADABLE:
            return False
        return True

    def _read(self, part: _AnswerPart, around: _AnswerPart | None = None) -> None:
        self._model = part.model or part.modelVersion or self._model
        for inner in (part.message, part.response) if around is None else ():
            if bytes(inner).startswith(b"{"):
                self._part(bytes(inner), part)
        if part.prompt_eval_count is not None or part.eval_count is not None:
            self._know(Tokens(part.prompt_eval_count or 0, part.eval_count or 0))
            self._final = self._final or bool(part.done)
        for usage in (part.usage, part.usageMetadata):
            if usage:
                self._use(usage)
                self._early = (around or part).type in EARLY
                self._final = self._final or (not self._early and _is_final(part))

    def _use(self, usage: _ProviderUsage) -> None:
        known = self._known
        if usage.promptTokenCount is not None or usage.candidatesTokenCount is not None:
            self._know(_gemini(usage))
        elif usage.prompt_tokens is not None or usage.completion_tokens is not None:
            self._know(_chat(usage))
        elif usage.input_tokens_details is not None:
            self._know(_with_cached(usage.input_tokens, usage.output_tokens, usage.input_tokens_details))
        elif usage.input_tokens is not None or usage.output_tokens is not None:
            # Counters that only grow, reported at the start and at the end; some report only the difference at the end.
            self._know(
                Tokens(
                    max(known.input, usage.input_tokens or 0),
                    max(known.output, usage.output_tokens or 0),
                    max(known.cache_read, usage.cache_read_input_tokens or 0),
                    max(known.cache_write, usage.cache_creation_input_tokens or 0),
                )
            )

    def _end_of(self, text: bytes) -> None:
        """Read the last usage that is in the end of something too long to be kept."""
        for found in reversed(list(_NAMED.finditer(text))):
            try:
                usage = _USAGE.decode(_object(text[found.start(1) :]))
            except UNREADABLE:
                continue
            self._use(usage)
            return

    def _know(self, tokens: Tokens) -> None:
        self._known, self._said = tokens.within_limits, True

    def _tell(self) -> None:
        known, reported = self._known, self._reported
        if known != reported:
            self._reported = known
            added = Tokens(
                known.input - reported.input,
                known.output - reported.output,
                known.cache_read - reported.cache_read,
                known.cache_write - reported.cache_write,
            )
            self._metered(self._model, added)


def _is_final(part: _AnswerPart) -> bool:
    """Return whether the usage in a part is that of the whole answer."""
    if part.type is not None:
        return True
    going_on = bytes(part.candidates) or bytes(part.choices)
    return going_on in (b"", b"[]", b"null") or bool(_FINISHED.search(going_on))


def _how(content_type: str) -> BodyShape | None:
    match content_type:
        case "text/event-stream":
            return "events"
        case "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines":
            return "lines"
        case "application/json":
            return "whole"
        case _:
            return None


def _guess(start: bytes) -> Literal["events", "whole"] | None:
    """Tell events from documents by their first word; None where there is too little of it."""
    words = start.lstrip()
    if len(words) < 6 and len(start) < 1000:
        return None
    return "events" if words.startswith((b"data:", b"event:", b":", b"id:", b"retry:")) else "whole"


def _object(text: bytes) -> bytes:
    """Return the object that a text begins with; its usage holds no text, so braces can be counted."""
    depth = 0
    for at, byte in enumerate(text):
        depth += (byte == 0x7B) - (byte == 0x7D)
        if depth == 0:
            return text[: at + 1]
    return b""


def _with_cached(whole: int | None, output: int | None, details: _Details | None) -> Tokens:
    """Count the input without what came from a cache or went into one: these providers count it in."""
    read = (details.cached_tokens if details else None) or 0
    written = (details.cache_write_tokens if details else None) or 0
    return Tokens(max(0, (whole or 0) - read - written), output or 0, read, written)


def _chat(usage: _ProviderUsage) -> Tokens:
    details = usage.prompt_tokens_details
    if details is None and usage.prompt_cache_hit_tokens is not None:
        details = _Details(usage.prompt_cache_hit_tokens)
    return _with_cached(usage.prompt_tokens, usage.completion_tokens, details)


def _gemini(usage: _ProviderUsage) -> Tokens:
    read = usage.cachedContentTokenCount or 0
    asked = (usage.promptTokenCount or 0) + (usage.toolUsePromptTokenCount or 0)
    return Tokens(max(0, asked - read), (usage.candidatesTokenCount or 0) + (usage.thoughtsTokenCount or 0), read)
