"""Accounts of agents, in the store: how their windows stand, and how often they were asked in the last minute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from corral.model.money import Quota, QuotaWindow
from corral.store.sqlite.database import Database

MINUTE = 60.0


class SqliteAccounts:
    """What is known of the limits of each account."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def see(self, windows: Iterable[QuotaWindow]) -> None:
        """Remember how the windows of an account stand now."""
        with self._store.transaction():
            for each in windows:
                self._store.do(
                    "see_window", agent=each.agent, name=each.name, used=each.used, resets=each.resets, at=each.at
                )

    def seen(self) -> list[QuotaWindow]:
        return [QuotaWindow(**{name: row[name] for name in row.keys()}) for row in self._store.rows("quota_windows")]  # noqa: SIM118

    def ask(self, agent: str, most: int, now: float) -> float:
        """Count one more request of an account if the last minute has room for it; return how long to wait, or 0."""
        with self._store.transaction():
            self._store.do("forget_requests", before=now - MINUTE, now=now + MINUTE)
            row = self._store.rows("requests_since", agent=agent, since=now - MINUTE)[0]
            if cast("int", row["count"]) >= most:
                return max(0.01, cast("float", row["first"]) + MINUTE - now)
            self._store.do("add_request", agent=agent, at=now)
        return 0.0

    def learn_quota(self, agent: str, model: str | None, until: float | None, message: str, at: float) -> None:
        """Remember that an agent ran into a limit."""
        with self._store.transaction():
            self._store.do("add_quota", agent=agent, model=model, at=at, until=until, message=message)

    def quotas(self, now: float) -> list[Quota]:
        """Return the newest limit that each account of each agent ran into."""
        return [
            Quota(
                agent=cast("str", row["agent"]).partition("@")[0],
                account=cast("str", row["agent"]).partition("@")[2] or None,
                model=row["model"],
                at=row["at"],
                until=row["until"],
                message=row["message"],
                cooling_until=row["cooling"],
                times=row["times"],
            )
            for row in self._store.rows("newest_quotas", now=now)
        ]
