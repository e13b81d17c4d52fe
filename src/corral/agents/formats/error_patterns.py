"""`errors` of a command agent: its failures get the class that its table gives their words."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import structs

from corral.agents.protocol import Agent, Answers, Conversation, Heard, Listens
from corral.model import ErrorClass
from corral.model.agent_api import AgentFacts, AgentTask, Answer, Command, End, HangUp, Leave, Line, Telling
from corral.model.events import AgentEvent, Ended, Limited

LAST_LINES, MOST_LINE = 10, 200  #: of what it printed, where the words of a failure are looked for
UNCLEAR = ("crash", "bad_output")  #: classes that say nothing of the cause


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
    """Return a conversation whose failures are classified; it can be told and answered what `inner` can."""
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
        errors = _last(end.stderr)
        found = [*reversed(errors), *reversed(self._lines)]
        return [cast("AgentEvent", new) for event in self._inner.exited(end) for new in self._classify(event, found)]

    def _keep(self, line: str) -> None:
        self._lines.append(line[:MOST_LINE])

    def _classify(self, event: Heard, lines: Sequence[str]) -> list[Heard]:
        if not isinstance(event, Ended) or event.ok or event.error is None or event.error.kind not in UNCLEAR:
            return [event]
        for line in (*lines, *reversed(_last(event.error.message))):
            for kind, pattern in self._errors:
                if pattern.search(line):
                    message = event.error.message if line in event.error.message else f"{event.error.message}: {line}"
                    failure = structs.replace(event.error, kind=cast("ErrorClass", kind), message=message)
                    limited: list[Heard] = [Limited(line)] if kind == "rate_limit" else []
                    return [*limited, structs.replace(event, error=failure)]
        return [event]


class _InteractiveConversation(_ClassifiedConversation):
    """One that speaks a protocol: it can be told something and waits for answers."""

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


def _last(text: str) -> list[str]:
    return [line[:MOST_LINE] for line in text.splitlines()[-LAST_LINES:]]
