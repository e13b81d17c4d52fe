"""Budgets and prices as files name them."""

from __future__ import annotations

from pathlib import Path

from corral.config.files import SettingsFile, convert
from corral.config.paths import user_file
from corral.model.errors import BadRequest
from corral.model.money import Budget, BudgetTable, Limit, PriceFile, PriceList, Window


def budget_of(mine: SettingsFile, theirs: SettingsFile) -> Budget:
    """Take the limits of both: a repository's may only be besides the person's, so it narrows."""
    own, limits = _budget_table(mine), [*_limits(mine), *_limits(theirs)]
    _budget_table(theirs)
    if unheard := {"zone", "unknown_cost_usd", "max_unpriced_requests", "ceiling_usd", "cheaper", "mcp_over_budget"} & {
        *theirs.table("budget")
    }:
        key = min(unheard)
        raise BadRequest(f"{theirs.where('budget', key)}: [budget] {key} is yours to say", hint=f"in {user_file()}")
    charge = 1.0 if own.unknown_cost_usd is None else own.unknown_cost_usd
    return Budget(
        limits=tuple(limits),
        unknown_cost_usd=charge,
        max_unpriced_requests=own.max_unpriced_requests,
        zone=own.zone or "",
        cheaper=own.cheaper,
        mcp_over_budget=own.mcp_over_budget,
    )


def _budget_table(file: SettingsFile) -> BudgetTable:
    table = convert(file.table("budget"), BudgetTable, file, "budget")
    for key in BudgetTable.__struct_fields__:
        value = getattr(table, key)
        if isinstance(value, float) and not 0 < value < float("inf"):
            raise BadRequest(
                f"{file.where('budget', key)}: [budget] {key} is more than 0", hint="leave it out: no limit"
            )
    if table.max_unpriced_requests is not None and table.max_unpriced_requests < 1:
        where = file.where("budget", "max_unpriced_requests")
        raise BadRequest(f"{where}: [budget] max_unpriced_requests is 1 or more", hint="leave it out: 50")
    return table


def _limits(file: SettingsFile) -> list[Limit]:
    table = convert(file.table("budget"), BudgetTable, file, "budget")
    said: tuple[tuple[Window, str, float | None], ...] = (
        ("run", "per_run_usd", table.per_run_usd),
        ("day", "per_day_usd", table.per_day_usd),
        ("month", "per_month_usd", table.per_month_usd),
        ("ceiling", "ceiling_usd", table.ceiling_usd),
    )
    return [
        Limit(window=window, usd=usd, where=file.where("budget", key)) for window, key, usd in said if usd is not None
    ]


def price_list() -> PriceList:
    """Read the prices that are ours: the person's prices.toml beside config.toml, and the file we ship."""
    shipped = Path(__file__).parent.with_name("prices.toml")
    return PriceList(own=_prices(user_file().with_name("prices.toml")), shipped=_prices(shipped))


def _prices(path: Path) -> PriceFile:
    file = SettingsFile.read(path, keys=False)
    read = convert(file.tables, PriceFile, file, "models")
    for name, price in read.models.items():
        for rate in (price, *price.tiers):
            for key in ("input", "output", "cache_read", "cache_write"):
                usd = getattr(rate, key)
                if usd is not None and not 0 <= usd < float("inf"):
                    raise BadRequest(f"{file.where('models', name, key)}: a price is 0 or more")
    for name, about in read.attempts.items():
        if not 0 <= about.low <= about.high < float("inf"):
            raise BadRequest(f"{file.where('attempts', name)}: a range is 0 or more, the lower end first")
    return read
