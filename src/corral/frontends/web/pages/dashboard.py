"""Now: what runs, what needs the person, what today has cost."""

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
from corral.model import Status
from corral.model.server import RunFilter, RunSummary

router = APIRouter()
RUNNING_MOST = 50
ENDED_MOST = 12
STUCK_MOST = 10

STUCK: tuple[Status, ...] = ("waiting", "limited", "over_budget")


class Today(Struct, frozen=True, kw_only=True):
    """What this day has cost, against its limit."""

    spent: float
    reserved: float
    limit: float | None
    zone: str


class ActiveRunView(Struct, frozen=True, kw_only=True):
    """What goes on."""

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
    at_work = RunFilter(most=RUNNING_MOST, statuses=("running", "queued", "paused"))
    stuck = site.engine.history.page(RunFilter(most=STUCK_MOST + 1, statuses=STUCK))
    over = RunFilter(most=ENDED_MOST, statuses=("done", "failed", "timed_out", "stopped", "partial"))
    return {
        "running": [_work(site, line) for line in site.engine.history.page(at_work)],
        "stuck": stuck[:STUCK_MOST],
        "stuck_kinds": STUCK if len(stuck) > STUCK_MOST else (),
        "ended": site.engine.history.page(over),
        "entries": site.engine.inbox.entries(),
        "today": _today(site),
        "queue": site.engine.queue.state(),
        "halted": site.engine.money.halted_by(),
        "repository": site.settings.roots[0],
    }


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
