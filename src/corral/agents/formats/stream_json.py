"""stream-json: the lines that Claude Code prints, and in dialects of its own other programs too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from corral.agents.formats import error_words
from corral.agents.formats.printed_json import UNREADABLE, decode, decode_value
from corral.agents.formats.tool_arguments import main_argument
from corral.agents.formats.usage import reported_tokens
from corral.model import ErrorClass, Failure, Tokens
from corral.model.agent_api import End, HangUp, Line
from corral.model.events import (
    AgentEvent,
    CalledTool,
    Changed,
    ContextUsed,
    Ended,
    QuotaReported,
    Said,
    Spent,
    Started,
    SteerTaken,
    ToolReturned,
    Unparsed,
)
from corral.model.values import MOST_TOKENS, usd_or_none

MOST_TOOL_OUTPUT = 2000
MOST_WINDOWS = 20
NO_TOKENS = Tokens()
SPANS = {"five_hour": "5h", "seven_day": "7d"}


class Dialect(Struct, frozen=True, kw_only=True):
    """In what those who print it differ."""

    program: str
    hints: Mapping[ErrorClass, str]
    writers: tuple[str, ...]  #: tools that change the file they name
    counts_cached: bool = False  #: its input tokens count those from a cache too


class _StreamUsage(Struct, gc=False):
    input_tokens: object = 0
    output_tokens: object = 0
    cache_read_input_tokens: object = 0
    cache_creation_input_tokens: object = 0


class _StreamBlock(Struct, gc=False):
    type: str
    text: str = ""
    name: str = ""
    id: str = ""
    input: Raw = Raw(b"")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"")


class _StreamMessage(Struct, gc=False):
    id: str = ""
    content: str | list[_StreamBlock] = ""
    usage: _StreamUsage | None = None


class _Denial(Struct, gc=False):
    tool_name: str = ""


class _StreamProblem(Struct, gc=False):
    message: str = ""


class _Window(Struct, gc=False):
    utilization: object = None
    resetsAt: object = None  # noqa: N815 -- as it prints it


class _Quota(_Window, gc=False):
    rateLimitType: str = ""  # noqa: N815
    unifiedWindows: dict[str, _Window] = {}  # noqa: N815 -- msgspec makes a new one each time


class _StreamLine(Struct, gc=False):
    type: str
    subtype: str = ""
    session_id: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    qwen_code_version: str | None = None
    message: _StreamMessage | None = None
    is_error: bool = False
    result: str | None = None
    total_cost_usd: object = None
    usage: _StreamUsage | None = None
    permission_denials: tuple[_Denial, ...] = ()
    api_error_status: object = None
    structured_output: Raw = Raw(b"")
    structured_result: Raw = Raw(b"")  # as Qwen calls it
    parent_tool_use_id: str | None = None
    rate_limit_info: _Quota | None = None
    error: _StreamProblem | str | None = None
    isReplay: bool = False  # noqa: N815 -- a message it was given, said back


_DECODE = msgspec.json.Decoder(_StreamLine)
_DECODE_TEXT = msgspec.json.Decoder(str)
_DECODE_BLOCKS = msgspec.json.Decoder(list[_StreamBlock])


class StreamJson:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._writing: dict[str, str] = {}  # call -> path, until the tool says it worked
        self._ended = False
        self._filling = 0
        self._tokens = Tokens()  # of the turns that are over
        self._answers: dict[str, Tokens] = {}  # of this turn, by the answer's id
        self._spent = NO_TOKENS  # of all turns
        self._last_answer: str = ""
        self._last_usage = _StreamUsage()  # what that answer said it took

    def read(self, line: str) -> Sequence[AgentEvent | Line | HangUp]:
        try:
            message = _DECODE.decode(line)
        except UNREADABLE:
            try:
                message = decode(_DECODE, line)
            except UNREADABLE:
                return [Unparsed(line)]
        match message.type:
            case "assistant":
                answer = message.message
                if answer is None or answer.usage is None or message.parent_tool_use_id:
                    return self._blocks(answer)  # the tokens of its own agents are not its
                return self._answer_events(answer, answer.usage)
            case "user" if message.isReplay:
                return self._turn([SteerTaken(_words(message.message))])
            case "user":
                return self._blocks(message.message)
            case "result":
                self._ended = True
                return self._turn(self._result(message))
            case "system" if message.subtype == "init":
                version = message.claude_code_version or message.qwen_code_version
                return [Started(message.session_id, message.model, version)]
            case "rate_limit_event" if message.rate_limit_info:
                return _quota_events(message.rate_limit_info)
            case _:
                return []

    def _turn(self, events: list[AgentEvent]) -> Sequence[AgentEvent | Line | HangUp]:
        """Return what to make of events with which a turn of the agent begins or ends."""
        return events

    def exited(self, end: End) -> list[AgentEvent]:
        if self._ended:
            return []
        return error_words.no_result(self._dialect.program, end.code, end.stderr, hints=self._dialect.hints)

    def _answer_events(self, message: _StreamMessage, usage: _StreamUsage) -> list[AgentEvent]:
        """Return a part of an answer, and what the answer took up if that is new: each part of it repeats that.

        Not for its own agents: they may have a cheaper model. They are in the sum at its end, and metered.
        """
        if usage == self._last_usage and message.id == self._last_answer:
            return self._blocks(message)
        self._last_usage, self._last_answer = usage, message.id
        used = self._tokens_of(usage)
        events = self._blocks(message)
        filled = used.input + used.cache_read + used.cache_write
        if filled and filled != self._filling:  # how much of its window a request took up, once for each
            self._filling = filled
            events.insert(0, ContextUsed(min(filled, MOST_TOKENS)))
        if message.id:
            self._count(message.id, used, events)
        return events

    def _count(self, answer: str, used: Tokens, events: list[AgentEvent]) -> None:
        """Tell what its answers took up so far: limits are enforced while it works."""
        before = self._answers.get(answer, NO_TOKENS)
        if used in (before, NO_TOKENS):
            return
        self._answers[answer] = used
        spent = self._spent  # not limited: what was added can be taken off again
        self._spent = Tokens(
            spent.input + used.input - before.input,
            spent.output + used.output - before.output,
            spent.cache_read + used.cache_read - before.cache_read,
            spent.cache_write + used.cache_write - before.cache_write,
        )
        events.append(Spent(self._spent.within_limits))

    def _tokens_of(self, usage: _StreamUsage) -> Tokens:
        whole, output = usage.input_tokens, usage.output_tokens
        read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        if self._dialect.counts_cached:
            return reported_tokens(whole, output, read, written, counts_cached=True)
        if type(whole) is int and type(output) is int and type(read) is int and type(written) is int:  # nearly always
            return Tokens(whole, output, read, written).within_limits
        return reported_tokens(whole, output, read, written)

    def _blocks(self, message: _StreamMessage | None) -> list[AgentEvent]:
        if message is None or isinstance(message.content, str):
            return []
        if len(message.content) == 1:  # as nearly always
            return self._block(message.content[0])
        return [event for block in message.content for event in self._block(block)]

    def _block(self, block: _StreamBlock) -> list[AgentEvent]:
        match block.type:
            case "text":
                return [Said(block.text)] if block.text else []
            case "tool_use":
                words, path = main_argument(block.input)
                if path and block.name in self._dialect.writers:
                    self._writing[block.id] = path
                return [CalledTool(block.name, words, block.id)]
            case "tool_result":
                ok = not block.is_error
                returned = ToolReturned(block.tool_use_id, ok, _text(block.content))
                path = self._writing.pop(block.tool_use_id, None)
                return [returned, Changed(path)] if path and ok else [returned]
            case _:
                return []

    def _result(self, message: _StreamLine) -> list[AgentEvent]:
        self._tokens += self._tokens_of(
            message.usage or _StreamUsage()
        )  # each turn reports its own tokens; the money is a running sum
        self._answers.clear()
        self._spent, self._last_answer = self._tokens, ""
        return [Spent(self._tokens, usd_or_none(message.total_cost_usd)), *self._ending(message)]

    def _ending(self, message: _StreamLine) -> list[AgentEvent]:
        problem = message.error.message if isinstance(message.error, _StreamProblem) else message.error
        text = message.result or problem or ""
        if message.subtype == "error_max_budget_usd":
            return [Ended(ok=False, text=text, status="over_budget")]
        if message.subtype == "error_max_turns":
            return [Ended(ok=False, text=text, error=Failure("bad_output", "it used up its turns before it was done"))]
        if "structured_output" in text and message.is_error:  # Qwen's own words: it never called that tool
            return [Ended(ok=False, text=text, error=Failure("bad_output", text))]
        if message.is_error or message.subtype != "success":
            words = text or message.subtype or f"{self._dialect.program} reported an error"
            return error_words.failed(_status(message.api_error_status), words, text=text, hints=self._dialect.hints)
        structured = bytes(message.structured_output) or bytes(message.structured_result)
        try:
            output = decode_value(structured.decode()) if structured else None
        except UNREADABLE as error:
            return [Ended(ok=False, text=text, error=Failure("bad_output", f"its output cannot be read: {error}"))]
        denials = message.permission_denials
        denied = tuple(dict.fromkeys(denial.tool_name for denial in denials)) if denials else ()
        return [Ended(ok=True, text=text, output=output, denied=denied)]


def _words(message: _StreamMessage | None) -> str:
    if message is None:
        return ""
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content)


def _text(content: Raw) -> str:
    """Return a tool's answer as text: it comes as a string or as a list of blocks."""
    raw = bytes(content)
    if not raw:
        return ""
    try:
        if raw.startswith(b'"'):
            return _DECODE_TEXT.decode(raw)[:MOST_TOOL_OUTPUT]
        blocks = _DECODE_BLOCKS.decode(raw)
        return "\n".join(block.text for block in blocks if block.text)[:MOST_TOOL_OUTPUT]
    except UNREADABLE:
        return raw[:MOST_TOOL_OUTPUT].decode(errors="replace")


def _quota_events(quota: _Quota) -> list[AgentEvent]:
    """Return the state of the windows of its account; older versions tell only of the one that counts most."""
    found = quota.unifiedWindows or ({quota.rateLimitType: quota} if quota.rateLimitType else {})
    windows = list(found.items())[:MOST_WINDOWS]
    return [QuotaReported(_span(name), _number(each.utilization), _number(each.resetsAt)) for name, each in windows]


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _status(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _span(name: str) -> str:
    """Name a window as its provider's own answers do: seven_day_opus is `7d opus`."""
    for words, short in SPANS.items():
        if name.startswith(words):
            return (short + name[len(words) :]).replace("_", " ")
    return name.replace("_", " ")[:40]
