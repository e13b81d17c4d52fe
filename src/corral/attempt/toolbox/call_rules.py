"""The user's rules for tools, applied to the calls of one attempt."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time

from corral.attempt.events import AttemptEvents
from corral.machines.tool_calls import CallFailed
from corral.model import ENCODER, Question, RunPlan
from corral.model.events import Noted
from corral.rules.context.program_tools import logged_arguments
from corral.rules.scope.tool_policy import PolicyVerdict, judge_call

WAIT_SECONDS = 20.0  #: a call that needs a yes waits so long for it; it may be made again
DEADLINE_SECONDS = 86_400.0
MOST_SHOWN = 200  #: characters of a call in the log and in a question


class CallRules:
    """Lets calls pass, asks the user, or refuses; each decision of a rule is an event."""

    def __init__(self, attempt_events: AttemptEvents, plan: RunPlan) -> None:
        self._events, self._rules = attempt_events, plan.policy

    async def check(self, tool: str, arguments: object, wait_seconds: float = WAIT_SECONDS) -> None:
        """Return if a call may be made; CallFailed if not."""
        if not self._rules:
            return
        verdict = judge_call(self._rules, tool, logged_arguments(tool, arguments))
        line = self._events.redactor.text(verdict.line)[:MOST_SHOWN]
        reason = f"the rule `{verdict.rule}`" if verdict.rule else "its default"
        if verdict.rule or verdict.word != "allow":
            self._events.emit(Noted(f"[policy] {verdict.word}: `{line}` by {reason}"))
        if verdict.word == "deny":
            raise CallFailed("refused", f"[policy] denies `{line}` by {reason}; do it in another way, or leave it out")
        if verdict.word == "ask":
            call = hashlib.sha256(ENCODER.encode([tool, arguments])).hexdigest()[:16]
            await self._ask(verdict, line, call, wait_seconds)

    async def _ask(self, verdict: PolicyVerdict, line: str, call: str, wait_seconds: float) -> None:
        """Ask once for each call: a yes to one is no yes to the same tool with other arguments."""
        record, questions = self._events.record, self._events.run_questions()
        attempt = record.attempt.id
        entry = questions.ask(
            Question(
                key=f"{attempt}/policy/{call}",
                run=record.run,
                node=record.node,
                attempt=attempt,
                kind="approval",
                about="tool",
                text=f"May {record.attempt.agent} call `{line}`?",
                context=f"[policy] asks by `{verdict.rule or 'its default'}`; if nobody answers: no",
                deadline=time.time() + DEADLINE_SECONDS,
            )
        )
        if entry.is_open:
            with contextlib.suppress(TimeoutError), self._events.waiting_for_answer(entry):
                async with asyncio.timeout(wait_seconds):
                    entry = await questions.answer(entry)
        if entry.is_open:
            raise CallFailed("refused", f"the user is asked about `{line}` and has not answered: call it again later")
        if entry.answer != "yes":
            raise CallFailed("refused", f"the user refused `{line}`")
