"""Limits of agents' accounts, as they told them: what every run learns, and `corral quota` shows."""

from __future__ import annotations

from corral.money import Quota
from corral.world.store.sqlite import Store


def learn(store: Store, agent: str, model: str | None, until: float | None, message: str, at: float) -> None:
    """Remember that an agent ran into a limit."""
    with store.transaction():
        store.do("add_quota", agent=agent, model=model, at=at, until=until, message=message)


def known(store: Store, now: float) -> list[Quota]:
    """Return the newest limit of each agent."""
    return [
        Quota(
            agent=row["agent"],
            model=row["model"],
            at=row["at"],
            until=row["until"],
            message=row["message"],
            cooling_until=row["cooling"],
            times=row["times"],
        )
        for row in store.rows("newest_quotas", now=now)
    ]
