"""An agent's questions to the person: into the inbox, and the answer back to the tool that asked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from corral.attempt.events import AttemptEvents
from corral.model import Entry, Question
from corral.model.errors import BadRequest
from corral.rules.context.tools import AskPerson

MOST_QUESTIONS = 20  #: of one attempt


class AskUser:
    """What one attempt has asked."""

    def __init__(self, recorder: AttemptEvents) -> None:
        self._record, self._recorder = recorder.record, recorder
        self._desk = recorder.desk()
        self._entries: dict[str, Entry] = {}

    async def ask(self, asked: AskPerson) -> dict[str, Any]:
        """Ask, and wait a little for the answer."""
        if len(self._entries) >= MOST_QUESTIONS:
            raise BadRequest(f"{MOST_QUESTIONS} questions are the most", hint="decide it yourself")
        attempt = self._record.attempt.id
        entry = self._desk.ask(
            Question(
                key=f"{attempt}/toolbox/{len(self._entries) + 1}",
                run=self._record.run,
                node=self._record.node,
                attempt=attempt,
                kind="question",
                about="question",
                text=self._recorder.redactor.text(asked.question),
                context=f"asked by {self._record.attempt.agent}; if nobody answers: {asked.default or 'nothing'}",
                choices=(),
                default=asked.default,
                deadline=time.time() + 60 * asked.deadline_minutes,
            )
        )
        self._entries[entry.id] = entry
        return await self.answer(entry.id, asked.wait_seconds)

    async def answer(self, ask: str, wait_seconds: float) -> dict[str, Any]:
        """Tell what the person has answered so far."""
        entry = self._entries.get(ask)
        if entry is None:
            raise BadRequest(f"you have asked nothing called `{ask[:80]}`", hint="ask_person returns its name")
        if entry.open:
            held = self._recorder.held_by(entry) if wait_seconds else contextlib.nullcontext()
            with contextlib.suppress(TimeoutError), held:
                async with asyncio.timeout(wait_seconds):
                    entry = self._entries[ask] = await self._desk.answer(entry)
        if entry.open:
            return {"ask": ask, "answered": False, "hint": "go on with other work, and call read_answer later"}
        return {"ask": ask, "answered": True, "answer": entry.answer, "by": entry.answered_by}
