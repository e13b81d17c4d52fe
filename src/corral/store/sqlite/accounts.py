"""Accounts of agents, in the store: how their windows stand, and how often they were asked in the last minute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from corral.model.money import QuotaWindow
from corral.store.sqlite.store import Store

MINUTE = 60.0


def see(store: Store, windows: Iterable[QuotaWindow]) -> None:
    """Remember how the windows of an account stand now."""
    with store.transaction():
        for each in windows:
            store.do("see_window", agent=each.agent, name=each.name, used=each.used, resets=each.resets, at=each.at)


def seen(store: Store) -> list[QuotaWindow]:
    return [QuotaWindow(**{name: row[name] for name in row.keys()}) for row in store.rows("quota_windows")]  # noqa: SIM118


def ask(store: Store, agent: str, most: int, now: float) -> float:
    """Count one more request of an account, if the last minute has room for it; return how long to wait, 0 if none."""
    with store.transaction():
        store.do("forget_requests", before=now - MINUTE, now=now + MINUTE)
        row = store.rows("requests_since", agent=agent, since=now - MINUTE)[0]
        if cast("int", row["count"]) >= most:
            return max(0.01, cast("float", row["first"]) + MINUTE - now)
        store.do("add_request", agent=agent, at=now)
    return 0.0
