"""A run's events as a client sees them: its nodes as a plan, a tool call for each attempt and each check."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from corral.engine.engine import Engine
from corral.frontends.acp.updates import Updates, text_content
from corral.frontends.run_text import event_words
from corral.frontends.text import one_line
from corral.model import OPEN, Attempt, NodeState, Run
from corral.model.events import Checked, ContextUsed, StatusChanged, StoredEvent
from corral.model.flow import agent_and_model

BEAT_SECONDS = 3.0  #: a client hears something at least so often: many give up on a silent agent
MOST_LINES = 12  #: of an attempt that are shown
MOST_LINE = 500
MOST_OUTPUT = 4000  #: characters of a check's output
STEPS = {"queued": "pending", "running": "in_progress", "waiting": "in_progress", "paused": "in_progress"}


class AttemptCall:
    """What is shown of one attempt."""

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self.changed = False
        self.over = False
        self.checks = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class ProgressReport:
    """Tells a client how far a run is."""

    def __init__(self, engine: Engine, updates: Updates, run: str) -> None:
        self._engine, self._updates, self.run = engine, updates, run
        self._calls: dict[str, AttemptCall] = {}
        self._plan: list[dict[str, str]] = []
        self._filled: tuple[int, int] | None = None
        self._sent_at = time.monotonic()
        self._begun = time.time()

    def take(self, events: Sequence[StoredEvent]) -> None:
        """Tell what is new."""
        if not events:
            self._beat()
            return
        document: Run | None = None
        for stored in events:
            event = stored.event()
            if isinstance(event, StatusChanged) or (stored.attempt and stored.attempt not in self._calls):
                document = document or self._engine.show(self.run)
                self._tell_plan(document)
            if stored.attempt:
                call = self._call(stored.attempt, document)
                self._take_attempt(call, stored)
        for call in self._calls.values():
            self._show(call)
        if document is not None:
            self._end_calls(document)

    def end(self, run: Run) -> None:
        """Tell the end of everything that was begun."""
        self._tell_plan(run)
        self._end_calls(run, every=True)

    # --- parts

    def _take_attempt(self, call: AttemptCall, stored: StoredEvent) -> None:
        event = stored.event()
        if isinstance(event, Checked):
            self._tell_check(call, event)
        elif isinstance(event, ContextUsed) and event.window:
            self._tell_usage(event.tokens, event.window)
        elif words := event_words(event):
            call.lines.extend(one_line(line, MOST_LINE) for line in words.splitlines()[-MOST_LINES:])
            call.changed = True

    def _call(self, attempt: str, document: Run | None) -> AttemptCall:
        found = self._calls.get(attempt)
        if found is None:
            found = self._calls[attempt] = AttemptCall(attempt)
            node, known = _find(document or self._engine.show(self.run), attempt)
            self._updates.begin_call(attempt, _title(node, known), "other", "in_progress")
            self._sent_at = time.monotonic()
        return found

    def _show(self, call: AttemptCall) -> None:
        if not call.changed or call.over or self._updates.is_congested:
            return
        call.changed = False
        self._updates.change_call(call.attempt, status="in_progress", content=[text_content(call.text)])
        self._sent_at = time.monotonic()

    def _end_calls(self, run: Run, *, every: bool = False) -> None:
        for node in run.nodes:
            for attempt in node.attempts:
                call = self._calls.get(attempt.id)
                if call is None or call.over or (attempt.status in OPEN and not every):
                    continue
                call.over = True
                words = [*call.lines, _ending(attempt)]
                status = "completed" if attempt.status == "done" else "failed"
                content = [text_content("\n".join(words))]
                self._updates.change_call(attempt.id, status=status, title=_title(node, attempt), content=content)

    def _tell_check(self, call: AttemptCall, event: Checked) -> None:
        call.checks += 1
        check = event.check
        name = f"{call.attempt}/check-{call.checks}"
        result = "\n".join(filter(None, (check.note, check.output[-MOST_OUTPUT:].strip(), f"exit {check.exit_code}")))
        status = "completed" if check.passed else "failed"
        self._updates.begin_call(name, one_line(check.command, 200), "execute", status, [text_content(result)])

    def _tell_usage(self, tokens: int, window: int) -> None:
        if (tokens, window) != self._filled:
            self._filled = tokens, window
            self._updates.usage(tokens, window, self._engine.show(self.run).cost.usd)

    def _tell_plan(self, run: Run) -> None:
        entries = [_entry(node, run) for node in run.nodes]
        if entries and entries != self._plan:
            self._plan = entries
            self._updates.plan(entries)

    def _beat(self) -> None:
        """Say something where nothing happens."""
        if time.monotonic() - self._sent_at < BEAT_SECONDS or self._updates.is_congested:
            return
        self._sent_at = time.monotonic()
        at_work = [call for call in self._calls.values() if not call.over]
        for call in at_work[-1:]:
            waited = f"({time.time() - self._begun:.0f} s)"
            content = [text_content(f"{call.text}\n{waited}".strip())]
            self._updates.change_call(call.attempt, status="in_progress", content=content)
        if not at_work and self._plan:
            self._updates.plan(self._plan)


def _find(run: Run, attempt: str) -> tuple[NodeState | None, Attempt | None]:
    for node in run.nodes:
        for each in node.attempts:
            if each.id == attempt:
                return node, each
    return None, None


def _title(node: NodeState | None, attempt: Attempt | None) -> str:
    if node is None or attempt is None:
        return "an attempt"
    again = f", try {attempt.number}" if attempt.number > 1 else ""
    return f"{agent_and_model(attempt.agent, attempt.model)}: {node.id}{again}"


def _ending(attempt: Attempt) -> str:
    if attempt.error is not None:
        return one_line(f"{attempt.status}: {attempt.error.message}", MOST_LINE)
    changed = f", {len(attempt.files_changed)} files changed" if attempt.files_changed else ""
    return f"{attempt.status}{changed}"


def _entry(node: NodeState, run: Run) -> dict[str, str]:
    status = STEPS.get(node.status, "completed")
    ended = "" if node.status in ("done", *OPEN) else f" ({node.status})"
    words = one_line(run.task, 120) if len(run.nodes) == 1 else node.id
    return {"content": f"{words}{ended}", "priority": "medium", "status": status}
