"""Limits of agents' accounts, as they told them: what every run learns, and `corral quota` shows."""

from __future__ import annotations

from typing import cast

from corral.model.money import Quota
from corral.store.sqlite.store import Store


def learn(store: Store, agent: str, model: str | None, until: float | None, message: str, at: float) -> None:
    """Remember that an agent ran into a limit."""
    with store.transaction():
        store.do("add_quota", agent=agent, model=model, at=at, until=until, message=message)


def known(store: Store, now: float) -> list[Quota]:
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
        for row in store.rows("newest_quotas", now=now)
    ]
