"""The tool for money: limits and their use; set and removed as on the command line."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from corral import amounts
from corral.engine.budget import money
from corral.engine.engine import Engine
from corral.frontends.mcp import arguments, responses
from corral.frontends.mcp.act_tools import ToolReply
from corral.frontends.mcp.calls import ClientCall
from corral.model.errors import BadRequest
from corral.model.money import Limit, LimitStatus, Window


async def budget(call: ClientCall, asked: arguments.BudgetArguments) -> ToolReply:
    """Show limits; set some, or take away those that were set by hand. The ceiling is the user's alone."""
    outcome = ""
    if asked.does == "set":
        if not asked.amounts:
            raise BadRequest("there is no amount to set", hint="max_cost (a day), per_run or per_month, in USD")
        limits = [Limit(window=window, usd=usd, agent=asked.agent) for window, usd in asked.amounts]
        await call.engine.money.set_limits(limits, call.by)
        outcome = "set: " + ", ".join(f"{amounts.usd(usd)} for each {window}" for window, usd in asked.amounts)
    elif asked.does == "reset":
        gone = call.engine.money.reset(asked.agent, "", call.by)
        outcome = f"taken away: {gone}"
    return ToolReply(budget_reply(call.engine, outcome))


def spent_day_and_month(engine: Engine) -> tuple[float, float]:
    """Return what was spent today, and this month."""
    found = engine.money.spending(engine.settings.load(Path()).budget)
    return found["day"][0], found["month"][0]


def budget_reply(engine: Engine, outcome: str) -> responses.BudgetReply:
    settings = engine.settings.load(Path()).budget
    limits = engine.money.standings(settings)
    found = engine.money.spending(settings)
    rows = engine.money.overview(settings, since=time.time() - 32 * 86400).days.rows
    today = datetime.now(money.zone_of(settings)).date().isoformat()
    return responses.BudgetReply(
        daily_tokens=sum(row.tokens for row in rows if row.key == today),
        daily_spending=found["day"][0],
        daily_held=found["day"][1],
        daily_limit=_least(limits, "day"),
        monthly_tokens=sum(row.tokens for row in rows if row.key[:7] == today[:7]),
        monthly_spending=found["month"][0],
        monthly_held=found["month"][1],
        monthly_limit=_least(limits, "month"),
        limits=tuple(_limit(each) for each in limits),
        outcome=outcome,
    )


def _least(limits: list[LimitStatus], window: Window) -> float | None:
    """Return the limit that holds for everything: the lowest."""
    usd = [
        each.limit.usd
        for each in limits
        if each.limit.window == window and not each.limit.agent and not each.limit.repo
    ]
    return min(usd, default=None)


def _limit(each: LimitStatus) -> responses.LimitReply:
    limit = each.limit
    return responses.LimitReply(
        window=limit.window,
        usd=limit.usd,
        agent=limit.agent or None,
        repo=limit.repo or None,
        spent_usd=each.spent,
        held_usd=each.reserved,
        by=limit.where,
    )
