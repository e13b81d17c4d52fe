"""What tools give: the run document, or one of these; and in words, at most ten lines that a user can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from corral import amounts
from corral.engine.doctor import AgentReport
from corral.engine.views.next_steps import Action, next_steps
from corral.frontends.text import one_line
from corral.model import Attempt, InboxEntry, Run, Status, moment, winner
from corral.model.events import StoredEvent
from corral.model.merge import Preview
from corral.model.review import Comment
from corral.model.server import RunSummary

MOST_LINES = 9  #: with the JSON text for older clients, in a line of its own, ten
MOST_LINE = 300
MOST_NAMES = 8


class StatusReply(Struct, frozen=True, kw_only=True):
    """The status of all runs, limits and questions."""

    available_runtimes: tuple[str, ...]
    available_strategies: tuple[str, ...]
    preferred_runtime: str
    daily_spending: float
    monthly_spending: float
    is_mcp_mode: bool
    sandbox: str
    open: tuple[RunSummary, ...]  #: runs that are not over
    waiting: tuple[InboxEntry, ...]  #: engine_answer takes a user's word for each
    run: Run | None = None  #: the one that was asked for


class RunsReply(Struct, frozen=True, kw_only=True):
    runs: tuple[RunSummary, ...]


def event(stored: StoredEvent, body: dict[str, Any]) -> dict[str, Any]:
    """Return what happened as `corral logs --json` prints it: `type` and what belongs to it beside when and where."""
    at = moment(stored.at)
    return {"seq": stored.seq, "at": at, "node": stored.node, "attempt": stored.attempt, **body}


class EventsReply(Struct, frozen=True, kw_only=True):
    run: str
    status: Status
    events: tuple[dict[str, Any], ...]  #: each with seq, at, node, attempt, type, and what belongs to that type
    next: int  #: for `since`
    more: bool  #: there is more already


class DiffReply(Struct, frozen=True, kw_only=True):
    run: str
    attempt: str
    commit: str | None
    diff: str
    cut: bool  #: it is longer than was asked for
    bytes: int  #: how long it is in all


class CommentsReply(Struct, frozen=True, kw_only=True):
    run: str
    comments: tuple[Comment, ...]  #: all of the run, oldest first


class OutcomeReply(Struct, frozen=True, kw_only=True):
    """What became of what was said to a run."""

    run: str
    outcome: str


class FlowCheckReply(Struct, frozen=True, kw_only=True):
    """A flow that was checked."""

    ok: bool
    name: str
    nodes: tuple[str, ...]
    mistakes: tuple[str, ...]


class MergePreviewReply(Struct, frozen=True, kw_only=True):
    """What a merge would do."""

    preview: Preview


class RuntimesReply(Struct, frozen=True, kw_only=True):
    runtimes: tuple[AgentReport, ...]
    sandbox: str
    flows: tuple[str, ...]  #: templates of flows: `corral flow new NAME`


class LimitReply(Struct, frozen=True, kw_only=True):
    """A limit of money, and who set it."""

    window: str
    usd: float
    agent: str | None
    repo: str | None
    spent_usd: float | None
    held_usd: float | None
    by: str


class BudgetReply(Struct, frozen=True, kw_only=True):
    daily_tokens: int
    daily_spending: float
    daily_held: float
    daily_limit: float | None
    monthly_tokens: int
    monthly_spending: float
    monthly_held: float
    monthly_limit: float | None
    limits: tuple[LimitReply, ...]
    outcome: str


# --- in words


def readable(data: Struct, said: Sequence[str], *, waits: bool = False) -> str:
    """Return a result as a user reads it: what is always said, what was said of it already, and the next call."""
    lines = [one_line(line, MOST_LINE) for line in said if line.strip()]
    match data:
        case Run():
            head, tail = run_lines(data, waits=waits)
            head = [next((line for line in lines if line.startswith(f"{head[0]}:")), head[0]), *head[1:]]
        case _:
            head, tail = list(_other_lines(data)), []
    kept = [line for line in lines if line not in head]
    room = max(0, MOST_LINES - len(head) - len(tail))
    return "\n".join([*head[: MOST_LINES - len(tail)], *kept[:room], *tail])


def run_lines(run: Run, *, waits: bool) -> tuple[list[str], list[str]]:
    """Return what is said of a run, and the call that comes next."""
    won = winner(run.nodes)
    head = [one_line(f"run {run.run} {run.status}" + (f": {run.reason}" if run.reason else ""), MOST_LINE)]
    if won is not None:
        why = next((node.why for node in run.nodes if node.winner == won.id), None)
        head.append(one_line(f"winner: {won.id} ({won.agent})" + (f": {why}" if why else ""), MOST_LINE))
    head.append(_changed_line(won))
    usd = "unknown" if run.cost.usd is None else amounts.usd(run.cost.usd)
    head.append(f"cost: {usd} ({run.cost.source}), {run.tokens.total} tokens, {run.seconds:.0f} s")
    if run.merge.status not in ("none", "ready"):
        head.append(f"merge: {run.merge.status}" + (f", {run.merge.into}" if run.merge.into else ""))
    if run.pull_request:
        trouble = f"; not pushed: {run.pull_request.trouble}" if run.pull_request.trouble else ""
        head.append(f"pull request: {run.pull_request.url} ({run.pull_request.state}{trouble})")
    return head, [f"next: {_next(run, waits=waits)}"]


def _changed_line(won: Attempt | None) -> str:
    if won is None or not won.files_changed:
        return "changed: nothing"
    names = [one_line(name, 60) for name in won.files_changed[:MOST_NAMES]]
    more = f" and {len(won.files_changed) - MOST_NAMES} more" if len(won.files_changed) > MOST_NAMES else ""
    return f"changed: {', '.join(names)}{more} (+{won.insertions} -{won.deletions})"


#: The call for each step that the engine offers; what has none is left to the user's terminal.
CALLS: dict[Action, str] = {
    "diff": "engine_diff run={run}",
    "compare": "engine_select run={run}",
    "merge": "engine_merge run={run}",
    "undo": "engine_merge run={run} action=undo takes it back",
    "resume": "engine_resume run={run}",
    "answer": "engine_answer, with what the user says",
}


def _next(run: Run, *, waits: bool) -> str:
    """Return the calls that lead on: the same steps that every front end offers."""
    if waits:
        return CALLS["answer"]
    if run.status in ("queued", "running"):
        return f"engine_result run={run.run} wait=60"
    if run.merge.status == "conflict":
        return f"engine_merge run={run.run} action=preview, then ask the user"
    calls = [CALLS[step.action].format(run=run.run) for step in next_steps(run).steps if step.action in CALLS]
    return ", then ".join(calls[:2]) or f"engine_output run={run.run} says what happened"


def _other_lines(data: Struct) -> Iterator[str]:
    match data:
        case StatusReply():
            yield f"{len(data.open)} runs at work or waiting, {len(data.waiting)} questions for the user"
            yield from (_summary(each) for each in data.open[:4])
            yield from (f"asks ({each.id}): {one_line(each.text, 200)}" for each in data.waiting[:2])
            yield f"spent: {amounts.usd(data.daily_spending)} today, {amounts.usd(data.monthly_spending)} this month"
            yield f"agents: {', '.join(data.available_runtimes[:MOST_NAMES]) or 'none'}; sandbox {data.sandbox}"
            yield "next: engine_answer" if data.waiting else "next: engine_execute"
        case RunsReply():
            yield f"{len(data.runs)} runs, newest first"
            yield from (_summary(each) for each in data.runs[: MOST_LINES - 2])
            yield "next: engine_result run=ID"
        case RuntimesReply():
            able = [each.name for each in data.runtimes if each.program]
            yield f"agents: {', '.join(able[:MOST_NAMES]) or 'none is installed'}; sandbox {data.sandbox}"
            yield "next: engine_execute"
        case EventsReply():
            yield f"run {data.run} {data.status}: {len(data.events)} events{', and more' if data.more else ''}"
            yield f"next: engine_output run={data.run} since={data.next}"
        case MergePreviewReply():
            found = data.preview
            files = ", ".join(one_line(each.path, 60) for each in found.conflicts[:MOST_NAMES])
            yield f"merge of {found.run} into {found.into}: " + (f"conflicts in {files}" if files else "clean")
            yield f"changes {len(found.files)} files, +{found.insertions} -{found.deletions}"
            yield f"next: engine_merge run={found.run}" + (", after the user said how" if files else "")
        case _:
            yield from _plain_lines(structs.asdict(data))


def _summary(each: RunSummary) -> str:
    usd = "" if each.usd is None else f", {amounts.usd(each.usd)}"
    return f"{each.run} {each.status}{usd}: {one_line(each.title, 80)}"


def _plain_lines(fields: dict[str, Any]) -> Iterator[str]:
    """Yield what is short among the fields of a reply."""
    for name, value in fields.items():
        if isinstance(value, str | int | float) and str(value) and name != "diff":
            yield f"{name.replace('_', ' ')}: {one_line(str(value), 200)}"
        elif isinstance(value, tuple | list):
            yield f"{name.replace('_', ' ')}: {len(value)}"  # pyright: ignore[reportUnknownArgumentType] -- any list
