"""What an agent at work asks: the question goes into the inbox, the answer back to it, now or at its next turn."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import Protocol

from msgspec import structs

from corral.attempt.events import AttemptEvents
from corral.attempt.user_questions import RunQuestions
from corral.model import Entry
from corral.model.agent_api import Answer
from corral.model.events import Asked
from corral.rules.text import questions

LONGEST_SECONDS = 3600.0
OF_IDLE = 0.8  #: an agent that waits is silent: its question is over before its silence is


class Reach(Protocol):
    """The ways to an agent at work."""

    def answer(self, order: Answer) -> bool: ...
    def steer(self, text: str) -> bool: ...


class AgentQuestions:
    """The questions of one attempt."""

    def __init__(
        self, attempt_events: AttemptEvents, run_questions: RunQuestions, idle_seconds: float, reach: Reach
    ) -> None:
        self._events, self._record, self._run_questions, self._reach = (
            attempt_events,
            attempt_events.record,
            run_questions,
            reach,
        )
        self._record.held_by = ()  # of an engine that died
        self._seconds = min(LONGEST_SECONDS, OF_IDLE * idle_seconds)
        self._waiting: set[asyncio.Task[None]] = set()
        self._count = 0

    def on_asked(self, asked: Asked) -> None:
        """Ask a person what was not answered at once."""
        if asked.answer:
            return
        self._count += 1
        record = self._record
        about = (record.run, record.node, record.attempt.id)
        ask = asked.ask or str(self._count)
        default = asked.default or (asked.choices[-1] if asked.choices else questions.UNANSWERED)
        question = questions.agent_question(about, f"{self._count}/{ask}", asked.question, asked.choices, default)
        context = f"{record.attempt.agent} ({record.attempt.id}) waits for it; after {self._seconds:.0f} s: {default}"
        entry = self._run_questions.ask(
            structs.replace(question, context=context, deadline=time.time() + self._seconds)
        )
        task = asyncio.get_running_loop().create_task(self._pass_on(asked, ask, entry))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _pass_on(self, asked: Asked, ask: str, entry: Entry) -> None:
        with (
            self._events.waiting_for_answer(entry) if asked.ask else nullcontext()
        ):  # it does not wait for what has no name
            entry = await self._run_questions.answer(entry)
        if entry.answered_by == "corral":
            return
        answer = entry.answer or ""
        words = f"You asked: {entry.text}\nThe answer is: {answer}"
        told = self._reach.answer(Answer(ask, answer)) or self._reach.steer(words)
        agent = self._record.attempt.agent
        self._run_questions.note_outcome(
            entry, f"told {agent}, which is at work" if told else f"{agent} is told at its next turn"
        )

    async def over(self) -> None:
        """The agent has ended: it hears nothing any more."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        await self._run_questions.close()
        self._run_questions.withdraw("it ended before it was answered", self._record.attempt.id)
