"""Now: what needs the user, what runs, what is ready to merge, what today has cost."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.budget import money
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader
from corral.frontends.web.pages import frame
from corral.frontends.web.pages.new import known_repositories
from corral.frontends.web.pages.outcomes import DashboardRow, outcome
from corral.model import Status
from corral.model.server import RunFilter, RunSummary

router = APIRouter()
RUNNING_MOST = 50
ENDED_MOST = 12
READY_MOST = 8
NEEDS_MOST = 6
STUCK_MOST = 10

STUCK: tuple[Status, ...] = ("waiting", "limited", "over_budget")


class Today(Struct, frozen=True, kw_only=True):
    """What this day has cost, against its limit."""

    spent: float
    reserved: float
    limit: float | None
    zone: str


class ActiveRunView(Struct, frozen=True, kw_only=True):
    """The active runs."""

    line: RunSummary
    done: int
    nodes: int


@router.get("/")
async def now(request: Request, site: CurrentSite, caller: Reader) -> Response:
    return frame.show(request, caller, "now.html", **_values(site))


@router.get("/now")
async def part(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """The part of the screen that changes."""
    return frame.show(request, caller, "_now.html", **_values(site))


def _values(site: Site) -> dict[str, object]:
    history, entries = site.engine.history, site.engine.inbox.entries()
    at_work = RunFilter(most=RUNNING_MOST, statuses=("running", "queued", "paused"))
    asked = {entry.run for entry in entries}
    parked = history.page(RunFilter(most=STUCK_MOST + 1 + len(asked), statuses=STUCK))
    stuck = [line for line in parked if line.run not in asked]
    over = RunFilter(most=ENDED_MOST, statuses=("done", "failed", "timed_out", "stopped", "partial"))
    ready = _ready(site)
    waiting = {each.run.run for each in ready}
    return {
        "running": [_work(site, line) for line in history.page(at_work)],
        "stuck": stuck[:STUCK_MOST],
        "stuck_kinds": STUCK if len(stuck) > STUCK_MOST else (),
        "ready": ready[:READY_MOST],
        "more_ready": len(ready) > READY_MOST,
        "ended": [line for line in history.page(over) if line.run not in waiting],
        "entries": entries,
        "outcomes": {run: _outcome(site, run) for run in dict.fromkeys(each.run for each in entries[:NEEDS_MOST])},
        "shown": NEEDS_MOST,
        "today": _today(site),
        "queue": site.engine.queue.state(),
        "halted": site.engine.money.halted_by(),
        "repository": "" if asked or parked or ready else next(iter(known_repositories(site)), ""),
    }


def _ready(site: Site) -> list[DashboardRow]:
    """Return the runs that are done and not merged, the newest first."""
    unmerged = RunFilter(most=READY_MOST + 1, statuses=("done",), unmerged=True, top_level=True)
    found = [outcome(site.engine.show(line.run), line.title) for line in site.engine.history.page(unmerged)]
    return [each for each in found if each.can_merge]


def _outcome(site: Site, run: str) -> DashboardRow:
    return outcome(site.engine.show(run), site.engine.history.flow_of(run).title)


def _work(site: Site, line: RunSummary) -> ActiveRunView:
    states = site.engine.history.node_states(line.run).values()
    open_states = ("queued", "running", "waiting", "paused")
    return ActiveRunView(line=line, done=sum(state not in open_states for state in states), nodes=len(states))


def _today(site: Site) -> Today:
    settings = site.engine.settings.load(Path()).budget
    spent, reserved = site.engine.money.spending(settings)["day"]
    limit_statuses = site.engine.money.standings(settings)
    limits = [each.limit.usd for each in limit_statuses if each.limit.window == "day" and not each.limit.agent]
    return Today(spent=spent, reserved=reserved, limit=min(limits, default=None), zone=money.zone_name(settings))
