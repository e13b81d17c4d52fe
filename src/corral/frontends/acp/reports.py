"""Ended runs in a few lines of Markdown, and a stored session replayed."""

from __future__ import annotations

from collections.abc import Sequence

from corral.engine.engine import Engine
from corral.engine.views.next_steps import next_steps
from corral.frontends import evidence_text
from corral.frontends.acp.progress import ProgressReport
from corral.frontends.acp.updates import Updates, text_content
from corral.frontends.text import money, one_line
from corral.model import OPEN, Attempt, Entry, Run, winner
from corral.model.chat import ChatRecord
from corral.model.errors import CorralError

MOST_ANSWER = 20_000  #: characters of an agent's last words
MOST_FILES = 20
SLASH = ("diff", "compare", "merge", "undo", "retry")  #: steps that have a slash command of the same name


def report(engine: Engine, run: Run) -> str:
    """Say what became of a run, who did it, what it cost and what the user can do next."""
    won = winner(run.nodes)
    shown = won or _last(run)
    parts = [_answer(shown)] if shown else []
    lines = [f"**{run.status}** · run `{run.run}` · {money(run.cost)}"]
    if run.reason:
        lines.append(one_line(run.reason, 1000))
    if shown and not won and shown.error:
        lines.append(f"{shown.agent}: {one_line(shown.error.message, 1000)}")
        lines += [one_line(shown.error.hint, 500)] if shown.error.hint else []
    if won:
        lines += _winner_lines(run, won)
    lines += _next(run)
    lines += [question_line(entry) for entry in engine.inbox.entries() if entry.run == run.run]
    return "\n\n".join([*filter(None, parts), "  \n".join(lines)])


def _next(run: Run) -> list[str]:
    """Return what helps next, as slash commands where the editor has them."""
    found = next_steps(run)
    ways = [f"`/{step.action}`" for step in found.steps if step.action in SLASH]
    if run.status in OPEN:
        return []
    unfinished = run.status != "done" and any(attempt.commit for node in run.nodes for attempt in node.attempts)
    further = ["`/revise TEXT` continues its work; any other prompt starts from the last commit."] if unfinished else []
    return [" ".join([found.words, *ways]), *further]


def question_line(entry: Entry) -> str:
    ways = "|".join(entry.choices) or "TEXT"
    return f"Waits for you: {one_line(entry.text, 1000)} — `/answer {entry.id} {ways}`"


def _winner_lines(run: Run, won: Attempt) -> list[str]:
    node = next(node for node in run.nodes if node.winner == won.id)
    lines = [f"{won.agent} won: {one_line(node.why, 500)}"] if node.why and len(node.attempts) > 1 else []
    if grade := evidence_text.line(won):
        lines.append(grade)
    if won.files_changed:
        named = ", ".join(f"`{name}`" for name in won.files_changed[:MOST_FILES])
        more = f" and {len(won.files_changed) - MOST_FILES} more" if len(won.files_changed) > MOST_FILES else ""
        lines.append(f"{named}{more}: +{won.insertions} -{won.deletions}, on branch `{won.branch}`")
    return lines


def _answer(attempt: Attempt) -> str:
    return attempt.output[:MOST_ANSWER].strip() if isinstance(attempt.output, str) else ""


def _last(run: Run) -> Attempt | None:
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    return attempts[-1] if attempts else None


def status_lines(runs: Sequence[Run]) -> list[str]:
    return [f"- `{run.run}` {run.status}: {one_line(run.task, 100)}" + _where(run) for run in runs]


def _where(run: Run) -> str:
    if run.status in OPEN:
        return ""
    return f" ({money(run.cost)}; {'merge: ' + run.merge.status})"


def replay(engine: Engine, updates: Updates, record: ChatRecord) -> int | None:
    """Tell a whole conversation again: each prompt, what its run did, and what became of it.

    Return the last event of the last run that was shown, if its end was not; None: there is nothing left to tell.
    """
    last: int | None = None
    for run in record.runs:
        last = None
        try:
            found = engine.show(run)
        except CorralError as error:
            updates.say(f"Run `{run}` cannot be shown: {error}")
            continue
        updates.repeat_prompt(found.name or found.task)
        progress = ProgressReport(engine, updates, run)
        events = list(engine.history.events(run))
        progress.take(events)
        if found.status not in OPEN:
            progress.end(found)
            updates.say(report(engine, found))
            _tell_merge(updates, found)
        else:  # it may end at any moment
            last = events[-1].seq if events else 0
    return last


def _tell_merge(updates: Updates, run: Run) -> None:
    if run.merge.status in ("merged", "undone", "conflict"):
        words = one_line(f"{run.merge.status}: {run.merge.into}", 200)
        updates.begin_call(f"{run.run}/merge", words, "edit", "completed", [text_content(words)])
