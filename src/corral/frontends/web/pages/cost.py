"""Cost: what was spent, by any dimension, against which limits."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, get_args

from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.budget import money
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Reader, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model.money import Budget, By, CostOverview, CostRow, CostTable, Limit, Window

router = APIRouter()
DIMENSIONS: tuple[By, ...] = get_args(By)
WINDOWS: dict[str, Window] = {"run": "run", "day": "day", "month": "month", "ceiling": "ceiling"}
LIMIT_DRAWN = 5  #: times the highest day: a limit above that would press all bars flat
PERIODS = {7: "7 days", 30: "30 days", 90: "90 days", 0: "all time"}


class CostBar(Struct, frozen=True, kw_only=True):
    """One day of the plot."""

    day: str
    usd: float
    reserved: float
    attempts: int
    done: int
    height: float  #: of what is spent, in percent of the highest
    reserved_height: float


class CostPlot(Struct, frozen=True, kw_only=True):
    """Days as bars, with the limit of a day where it can be drawn."""

    bars: tuple[CostBar, ...]
    limit: float | None  #: of a day, in dollars
    limit_height: float  #: in percent; 0: it is far above all bars

    @property
    def highest(self) -> CostBar:
        return max(self.bars, key=lambda bar: bar.usd)


@router.get("/cost")
async def cost(
    request: Request,
    site: CurrentSite,
    caller: Reader,
    by: By = "agent",
    days: Annotated[int, Query(ge=0, le=3650)] = 30,
) -> Response:
    return frame.show(request, caller, "cost.html", **_values(site, by, days))


@router.post("/cost/limit")
async def set_limit(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Set a limit of money, or take those away that were set by hand."""
    given = await form(request)
    if "reset" in given:
        site.engine.money.reset("", "", caller.by)
        return frame.go_to("/cost")
    window, text = WINDOWS.get(given.get("window", "")), given.get("usd", "").strip()
    try:
        usd = float(text)
    except ValueError:
        raise RefusedRequest(422, "invalid", f"`{text}` is no amount of dollars", hint="as 10 or 2.50") from None
    if window is None:
        raise RefusedRequest(422, "invalid", "a limit is for each run, a day, a month, or the ceiling of a month")
    limit = Limit(window=window, usd=usd, agent=given.get("agent", "").strip())
    await site.engine.money.set_limits([limit], caller.by)
    return frame.go_to("/cost")


def _values(site: Site, by: By, days: int) -> dict[str, object]:
    settings = site.engine.settings.load(Path()).budget
    since = time.time() - days * 86_400 if days else 0.0
    found = site.engine.money.overview(settings, since=since)
    table = found.by(by)
    most = max((row.usd for row in table.rows), default=0.0)
    return {
        "by": by,
        "days": days,
        "dimensions": DIMENSIONS,
        "periods": PERIODS,
        "table": table,
        "most": most,
        "plot": _plot(found.days, days, settings, _day_limit(found)),
        "agent_plots": {name: _plot(each, days, settings) for name, each in found.agent_days.items()},
        "standings": found.standings,
        "quotas": found.quotas,
        "zone": found.zone,
    }


def _day_limit(found: CostOverview) -> float | None:
    of_all = [each.limit.usd for each in found.standings if each.limit.window == "day" and not each.limit.agent]
    return min(of_all, default=None)


def _plot(table: CostTable, days: int, settings: Budget, limit: float | None = None) -> CostPlot | None:
    """Return every day of the period, also those without cost: a gap would lie."""
    rows = {row.key: row for row in table.rows}
    if not rows:
        return None
    zone: tzinfo = money.zone_of(settings)
    last = datetime.now(zone).date()
    first = last - timedelta(days=days - 1) if days else min(date.fromisoformat(day) for day in rows)
    first = max(first, last - timedelta(days=364))
    highest = max(row.usd + row.reserved_usd for row in rows.values()) or 1.0
    drawn = limit if limit is not None and limit <= LIMIT_DRAWN * highest else None
    full = max(highest, drawn or 0.0)
    wanted = [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
    bars = tuple(_bar(day, rows.get(day), full) for day in wanted)
    return CostPlot(bars=bars, limit=limit, limit_height=100 * drawn / full if drawn else 0.0)


def _bar(day: str, row: CostRow | None, full: float) -> CostBar:
    spent, reserved = (row.usd, row.reserved_usd) if row else (0.0, 0.0)
    return CostBar(
        day=day,
        usd=spent,
        reserved=reserved,
        attempts=row.attempts if row else 0,
        done=row.done if row else 0,
        height=100 * spent / full,
        reserved_height=100 * reserved / full,
    )
