"""What tools give: the run document, or one of these."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from corral.engine.doctor import AgentReport
from corral.model import InboxEntry, Run, Status, moment
from corral.model.events import StoredEvent
from corral.model.merge import Preview
from corral.model.review import Comment
from corral.model.server import RunSummary


class StatusReply(Struct, frozen=True, kw_only=True):
    """How everything stands."""

    available_runtimes: tuple[str, ...]
    available_strategies: tuple[str, ...]
    preferred_runtime: str
    daily_spending: float
    monthly_spending: float
    is_mcp_mode: bool
    sandbox: str
    open: tuple[RunSummary, ...]  #: runs that are not over
    waiting: tuple[InboxEntry, ...]  #: engine_answer takes a person's word for each
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
