"""Output of a command agent: its answer as text, JSON, JSON lines or by a pattern, and the class of its errors."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import UNSET, structs

from corral.agents.formats.printed_json import UNREADABLE, decode_value
from corral.agents.protocol import Agent, Answers, Conversation, Heard, Listens
from corral.model import NOT_STARTED, ErrorClass, Failure, Tokens
from corral.model.agent_api import (
    AgentFacts,
    AgentProfile,
    AgentTask,
    Answer,
    Command,
    End,
    HangUp,
    Leave,
    Line,
    Telling,
)
from corral.model.error_classes import class_of_words
from corral.model.events import AgentEvent, Ended, Limited, Said, Spent, Unparsed
from corral.model.missing_programs import hint_for_lacking, hint_for_missing, lacking_part, telling_line
from corral.model.values import token_count, usd_or_none

MOST_KEPT = 1 << 20  #: of what it printed, as the attempt's output; the raw log has the rest
LAST_LINES, MOST_LINE = 10, 200  #: of what it printed, where the words of a failure are looked for
UNCLEAR = ("crash", "bad_output")  #: classes that say nothing of the cause


class TextOutput:
    """Its output is its stdout; exit 0 is a good ending."""

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile
        self._kept: list[str] = []
        self._size = 0

    def read(self, line: str) -> list[AgentEvent]:
        self._keep(line)
        return [Said(line)] if line.strip() else []

    def exited(self, end: End) -> list[AgentEvent]:
        text = "\n".join(self._kept)
        if end.code != 0:
            return [_crash_event(end.code, end.stderr, text)]
        success = self._profile.success
        if success and not re.search(success, text, re.MULTILINE):
            return [_bad_ending(f"nothing it printed fits `success` ({success})", text)]
        return self._good(text)

    def _good(self, text: str) -> list[AgentEvent]:
        return [Ended(ok=True, text=text)]

    def _keep(self, line: str) -> None:
        if self._size < MOST_KEPT:
            self._kept.append(line[: MOST_KEPT - self._size])
            self._size += len(line) + 1


class _Pattern(TextOutput):
    """As text, but `result`, `cost` and `tokens` are patterns whose first group is meant."""

    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile)
        self._cost: str | None = None
        self._tokens: str | None = None

    def read(self, line: str) -> list[AgentEvent]:
        cost, tokens = _group(self._profile.cost, line), _group(self._profile.tokens, line)
        if cost is None and tokens is None:
            return super().read(line)
        # A budget is enforced while it works: what a line tells is not kept for the end.
        self._cost, self._tokens = cost or self._cost, tokens or self._tokens
        return [*super().read(line), *_spent_events(self._profile, self._cost, self._tokens)]

    def _good(self, text: str) -> list[AgentEvent]:
        result = _group(self._profile.result, text) if self._profile.result else text
        if result is None:
            return [_bad_ending(f"nothing it printed fits `result` ({self._profile.result})", text)]
        cost = self._cost or _group(self._profile.cost, text)  # a pattern may reach over several lines
        tokens = self._tokens or _group(self._profile.tokens, text)
        return [*_spent_events(self._profile, cost, tokens), Ended(ok=True, text=result)]


class _Json(TextOutput):
    """All it prints is one JSON value; `result`, `success`, `cost` and `tokens` name fields, dots reach inside."""

    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile)
        self._last_spent: list[AgentEvent] = []  # what it was last said to have spent
        self._closed = False

    def read(self, line: str) -> list[AgentEvent]:
        self._keep(line)
        if self._closed or not (line.startswith(("{", "}")) and line.rstrip().endswith("}")):
            return []
        self._closed = True  # it should be whole now; it is tried once, not again for each line of something else
        try:
            value = decode_value("\n".join(self._kept))
        except UNREADABLE:
            return []
        return self._new_spent_events([value])

    def _new_spent_events(self, values: list[object]) -> list[AgentEvent]:
        """Tell what it spent, as soon as that is known and once: a budget is enforced while it works."""
        spent = _spent_events(self._profile, _last(self._profile.cost, values), _last(self._profile.tokens, values))
        if spent == self._last_spent:
            return []
        self._last_spent = spent
        return spent

    def exited(self, end: End) -> list[AgentEvent]:
        text = "\n".join(self._kept)
        try:
            value = decode_value(text)
        except UNREADABLE:
            return [
                _crash_event(end.code, end.stderr, text) if end.code else _bad_ending("it did not print JSON", text)
            ]
        return self._judge([value], end.code, end.stderr)

    def _judge(self, values: list[object], code: int, stderr: str) -> list[AgentEvent]:
        profile = self._profile
        spent = self._new_spent_events(values)
        result = _last(profile.result, values) if profile.result else values[-1]
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        if code != 0:
            return [*spent, _crash_event(code, stderr, text)]
        if profile.success and not _holds(profile.success, values):
            return [*spent, _bad_ending(f"`success` ({profile.success}) does not hold in what it printed", text)]
        if profile.result and result is None:
            return [*spent, _bad_ending(f"no `{profile.result}` in what it printed", "")]
        return [*spent, Ended(ok=True, text=text, output=None if isinstance(result, str) else result)]


class _JsonLines(_Json):
    """Each line is a JSON value; the last line that has a field counts."""

    def __init__(self, profile: AgentProfile) -> None:
        super().__init__(profile)
        self._seen: dict[str, object] = {}
        self._last: object = None
        self._named = [name for name in (profile.result, profile.cost, profile.tokens, _field(profile.success)) if name]

    def read(self, line: str) -> list[AgentEvent]:
        if not line.strip():
            return []
        try:
            value = decode_value(line)
        except UNREADABLE:
            return [Unparsed(line)]
        self._last = value
        for name in self._named:
            found = _at(name, value)
            if found is not None:
                self._seen[name] = found
        text = next(
            (found for key in ("text", "message", "content") if isinstance(found := _at(key, value), str)), None
        )
        spent = self._new_spent_events([_Flat(self._seen)])
        return [Said(text), *spent] if text else spent

    def exited(self, end: End) -> list[AgentEvent]:
        if self._last is None:
            return [
                _crash_event(end.code, end.stderr, "")
                if end.code
                else _bad_ending("it did not print a line of JSON", "")
            ]
        return self._judge(
            [_Flat(self._seen), self._last] if not self._profile.result else [self._last, _Flat(self._seen)],
            end.code,
            end.stderr,
        )


class _Flat(dict[str, object]):
    """Fields gathered over many lines, under their dotted names."""


READERS: dict[str, Callable[[AgentProfile], Conversation]] = {
    "text": TextOutput,
    "regex": _Pattern,
    "json": _Json,
    "jsonl": _JsonLines,
}


def _at(name: str, value: object) -> object:
    if isinstance(value, _Flat):
        return value.get(name)
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(part)
    return value


def _last(name: str | None, values: list[object]) -> object:
    found = [_at(name, value) for value in values] if name else []
    return next((value for value in reversed(found) if value is not None), None)


def _field(success: str | None) -> str | None:
    return success.partition("=")[0].strip() if success else None


def _holds(success: str, values: list[object]) -> bool:
    """`field` is to be true, `field=value` is to be that value."""
    name, equals, wanted = success.partition("=")
    found = _last(name.strip(), values)
    if not equals:
        return bool(found)
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    return text == wanted.strip().strip("\"'")


def _group(pattern: str | None, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE) if pattern else None
    return (match.group(1) if match.re.groups else match.group()) if match else None


def _spent_events(profile: AgentProfile, cost: object, tokens: object) -> list[AgentEvent]:
    usd = usd_or_none(cost)
    if usd is not None and profile.cost_unit == "cents":
        usd /= 100
    if isinstance(tokens, dict):
        table = cast("dict[str, object]", tokens)
        named = ("input", "output", "cache_read", "cache_write")
        counted = Tokens(*(token_count(table.get(key) or table.get(f"{key}_tokens")) for key in named))
    else:
        counted = Tokens(output=token_count(tokens))
    return [Spent(counted, usd)] if usd is not None or counted != Tokens() else []


def _crash_event(code: int, stderr: str, text: str) -> Ended:
    said = telling_line(stderr.strip() or text.strip())
    reason = f": {said[:300]}" if said else ""
    last = next(reversed(stderr.strip().splitlines()), "")
    part = lacking_part(said) if last.strip() == said or class_of_words(last) in (None, "not_found") else ""
    hint = hint_for_lacking(part) if part else hint_for_missing(code, stderr)
    lasting = bool(part) or code in NOT_STARTED or class_of_words(said) in {"auth", "not_found"}
    failure = Failure("crash", f"it ended with {code}{reason}", hint, lasting=lasting or UNSET)
    return Ended(ok=False, text=text, error=failure)


def _bad_ending(why: str, text: str) -> Ended:
    return Ended(ok=False, text=text, error=Failure("bad_output", why))


class ClassifiedAgent:
    """Another agent, whose conversations are classified."""

    def __init__(self, agent: Agent, errors: Mapping[str, str]) -> None:
        self._agent, self._errors = agent, errors

    @property
    def facts(self) -> AgentFacts:
        return self._agent.facts

    def start(self, task: AgentTask) -> Command:
        return self._agent.start(task)

    def converse(self, task: AgentTask) -> Conversation:
        return conversation(self._agent.converse(task), self._errors)


def conversation(inner: Conversation, errors: Mapping[str, str]) -> Conversation:
    """Return a conversation whose failures are classified; it takes the same orders and answers as `inner`."""
    if isinstance(inner, Listens) and isinstance(inner, Answers):
        return _InteractiveConversation(inner, inner, inner, errors)
    return _ClassifiedConversation(inner, errors)


class _ClassifiedConversation:
    def __init__(self, inner: Conversation, errors: Mapping[str, str]) -> None:
        self._inner = inner
        self._errors = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in errors.items()]
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    def read(self, line: str) -> Sequence[Heard]:
        self._keep(line)
        # One that tells its own end says why: what its model wrote before is not about that.
        return [new for heard in self._inner.read(line) for new in self._classify(heard, ())]

    def exited(self, end: End) -> Sequence[AgentEvent]:
        # The last words are the nearest to the end, and what goes to stderr is more about trouble than the rest.
        errors = _last_ended(end.stderr)
        found = [*reversed(errors), *reversed(self._lines)]
        return [cast("AgentEvent", new) for event in self._inner.exited(end) for new in self._classify(event, found)]

    def _keep(self, line: str) -> None:
        self._lines.append(line[:MOST_LINE])

    def _classify(self, event: Heard, lines: Sequence[str]) -> list[Heard]:
        if not isinstance(event, Ended) or event.ok or event.error is None or event.error.kind not in UNCLEAR:
            return [event]
        for line in (*lines, *reversed(_last_ended(event.error.message))):
            for kind, pattern in self._errors:
                if pattern.search(line):
                    message = event.error.message if line in event.error.message else f"{event.error.message}: {line}"
                    failure = structs.replace(event.error, kind=cast("ErrorClass", kind), message=message)
                    limited: list[Heard] = [Limited(line)] if kind == "rate_limit" else []
                    return [*limited, structs.replace(event, error=failure)]
        return [event]


class _InteractiveConversation(_ClassifiedConversation):
    """One that speaks a protocol: it takes orders and waits for answers."""

    def __init__(self, inner: Conversation, listens: Listens, answers: Answers, errors: Mapping[str, str]) -> None:
        super().__init__(inner, errors)
        self._listens, self._answers = listens, answers

    def tell(self, order: Telling) -> Sequence[Line | HangUp | Leave]:
        return self._listens.tell(order)

    def answer(self, order: Answer) -> Sequence[Line]:
        return self._answers.answer(order)

    def _keep(self, line: str) -> None:
        if not line.lstrip().startswith("{"):  # its messages hold what the model says, which may be about anything
            super()._keep(line)


def _last_ended(text: str) -> list[str]:
    return [line[:MOST_LINE] for line in text.splitlines()[-LAST_LINES:]]
