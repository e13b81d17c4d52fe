"""Money: limits and their use, what was spent, quotas, a halt of everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.budget import money
from corral.engine.views.run_document import moment
from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Reader
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model.money import By, CostTable, HaltReport, Limit, LimitStatus, Quota, QuotaWindow

router = APIRouter(tags=["money"])
Usd = Annotated[float, Meta(gt=0)]


class LimitView(Struct, frozen=True, kw_only=True):
    window: str
    agent: str | None
    repo: str | None
    usd: float
    spent: float | None
    reserved: float | None
    until: str | None
    by: str


class SpentAmount(Struct, frozen=True, kw_only=True):
    spent: float
    reserved: float


class BudgetView(Struct, frozen=True, kw_only=True):
    """As `corral budget --json`."""

    zone: str
    day: SpentAmount
    month: SpentAmount
    limits: list[LimitView]


class BudgetBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    per_run: Usd | None = None
    per_day: Usd | None = None
    per_month: Usd | None = None
    ceiling: Usd | None = None
    agent: Annotated[str, Meta(max_length=100)] = ""
    repo: Annotated[str, Meta(max_length=4096)] = ""


class Total(Struct, frozen=True, kw_only=True):
    usd: float
    source: str
    reserved_usd: float
    notional: bool | UnsetType = UNSET
    notional_usd: float | UnsetType = UNSET


class Savings(Struct, frozen=True, kw_only=True):
    usd: float
    against: str


class CostRowView(Struct, frozen=True, kw_only=True):
    key: str
    usd: float
    reserved_usd: float
    tokens: int
    attempts: int
    done: int
    seconds: float
    unknown: int
    notional_usd: float | UnsetType = UNSET


class WindowView(Struct, frozen=True, kw_only=True):
    name: str
    used: float | None
    resets: str | None
    seen: str
    account: str | UnsetType = UNSET


class CostView(Struct, frozen=True, kw_only=True):
    """As `corral cost --json`."""

    total: Total
    by: str
    rows: list[CostRowView]
    saved: Savings | None
    windows: list[WindowView] | UnsetType = UNSET  #: of accounts whose dollars are notional


class QuotaView(Struct, frozen=True, kw_only=True):
    """As `corral quota --json`."""

    agent: str
    account: str | None
    model: str | None
    limited: bool
    until: str | None
    seen: str
    times: int
    message: str
    windows: list[WindowView]


class MoneyOverview(Struct, frozen=True, kw_only=True):
    """All of money at once."""

    budget: BudgetView
    days: CostView
    tables: dict[str, CostView]
    quotas: list[QuotaView]


@router.get("/budget", responses=gives(BudgetView))
async def show_budget(site: CurrentSite, _: Reader) -> Response:
    """Show money limits and their use."""
    return answer(_budget(site))


@router.put("/budget", responses=gives(BudgetView), openapi_extra=takes(BudgetBody))
async def set_budget(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Set limits: for each run, a day, a month; no answer exceeds the ceiling."""
    wanted = await body(request, BudgetBody)
    repo = auth.vet_repository(wanted.repo, site.settings.roots) if wanted.repo else ""
    limits = (
        Limit(window="run", usd=wanted.per_run or 0.0, agent=wanted.agent, repo=repo),
        Limit(window="day", usd=wanted.per_day or 0.0, agent=wanted.agent, repo=repo),
        Limit(window="month", usd=wanted.per_month or 0.0, agent=wanted.agent, repo=repo),
        Limit(window="ceiling", usd=wanted.ceiling or 0.0, agent=wanted.agent, repo=repo),
    )
    await site.engine.money.set_limits([limit for limit in limits if limit.usd], caller.by)
    return answer(_budget(site))


@router.delete("/budget", responses=gives(BudgetView))
async def reset_budget(site: CurrentSite, caller: Admin, *, ceiling: bool = False) -> Response:
    """Remove limits that were set; the ceiling only with `ceiling`."""
    site.engine.money.reset("", "", caller.by, ceiling=ceiling)
    return answer(_budget(site))


@router.get("/cost", responses=gives(CostView))
async def cost(
    site: CurrentSite,
    _: Reader,
    by: By = "agent",
    days: Annotated[int | None, Query(ge=1, le=36_500)] = None,
    repo: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """Show what attempts cost, by agent, model, day, repository or kind of task."""
    since = time.time() - days * 86_400 if days else 0.0
    found = site.engine.money.overview(_settings(site), since=since, repo=repo)
    table = found.by(by)
    windows = site.engine.money.windows(table.accounts) if table.notional_usd else None
    return answer(_cost_view(table, windows))


@router.get("/cost/overview", responses=gives(MoneyOverview))
async def cost_overview(
    site: CurrentSite,
    _: Reader,
    days: Annotated[int | None, Query(ge=1, le=36_500)] = None,
    repo: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """Show the cost by day and by every other dimension, and the use of all limits, in one answer."""
    since = time.time() - days * 86_400 if days else 0.0
    found = site.engine.money.overview(_settings(site), since=since, repo=repo)
    return answer(
        MoneyOverview(
            budget=BudgetView(
                zone=found.zone,
                day=SpentAmount(spent=found.today[0], reserved=found.today[1]),
                month=SpentAmount(spent=found.month[0], reserved=found.month[1]),
                limits=[_limit(each) for each in found.standings],
            ),
            days=_cost_view(found.days),
            tables={by: _cost_view(table) for by, table in found.tables.items()},
            quotas=[_quota(each) for each in found.quotas],
        )
    )


@router.get("/quota", responses=gives(list[QuotaView]))
async def quota(site: CurrentSite, _: Reader) -> Response:
    """Show the quotas of agents' accounts, and when they reset."""
    return answer([_quota(each) for each in site.engine.money.known_quotas()])


@router.post("/halt", responses=gives(HaltReport))
async def halt(site: CurrentSite, caller: Admin) -> Response:
    """Stop every run now, in any process, and let none start; report after at most 30 s what has stopped."""
    return answer(await site.engine.control.halt(caller.by))


@router.delete("/halt", status_code=204)
async def unhalt(site: CurrentSite, _: Admin) -> Response:
    """Allow runs to start again."""
    site.engine.money.unhalt()
    return Response(status_code=204)


def _cost_view(found: CostTable, windows: Sequence[QuotaWindow] | None = None) -> CostView:
    rows = [
        CostRowView(
            key=row.key,
            usd=row.usd,
            reserved_usd=row.reserved_usd,
            tokens=row.tokens,
            attempts=row.attempts,
            done=row.done,
            seconds=row.seconds,
            unknown=row.unknown,
            notional_usd=row.notional_usd,
        )
        for row in found.rows
    ]
    saved = None if found.saved_usd is None else Savings(usd=found.saved_usd, against=found.saved_against or "")
    total = Total(
        usd=found.usd,
        source=found.source,
        reserved_usd=found.reserved_usd,
        notional=True if found.notional_usd else UNSET,
        notional_usd=found.notional_usd or UNSET,
    )
    shown = UNSET if windows is None else [_window(each, account=each.agent) for each in windows]
    return CostView(total=total, by=found.by, rows=rows, saved=saved, windows=shown)


def _window(window: QuotaWindow, account: str | UnsetType = UNSET) -> WindowView:
    resets = None if window.resets is None else moment(window.resets)
    return WindowView(name=window.name, used=window.used, resets=resets, seen=moment(window.at), account=account)


def _settings(site: Site) -> money.Budget:
    return site.engine.settings.load(Path()).budget


def _budget(site: Site) -> BudgetView:
    settings = _settings(site)
    spent = site.engine.money.spending(settings)
    sums = {window: SpentAmount(spent=paid, reserved=held) for window, (paid, held) in spent.items()}
    limits = [_limit(each) for each in site.engine.money.standings(settings)]
    return BudgetView(zone=money.zone_name(settings), day=sums["day"], month=sums["month"], limits=limits)


def _limit(each: LimitStatus) -> LimitView:
    return LimitView(
        window=each.limit.window,
        agent=each.limit.agent or None,
        repo=each.limit.repo or None,
        usd=each.limit.usd,
        spent=each.spent,
        reserved=each.reserved,
        until=None if each.until is None else moment(each.until),
        by=each.limit.where,
    )


def _quota(each: Quota) -> QuotaView:
    return QuotaView(
        agent=each.agent,
        account=each.account,
        model=each.model,
        limited=each.cooling_until is not None,
        until=None if each.until is None else moment(each.until),
        seen=moment(each.at),
        times=each.times,
        message=each.message,
        windows=[_window(window) for window in each.windows],
    )
