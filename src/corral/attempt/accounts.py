"""Accounts that are not limited: which is next, and when the first may be asked again."""

from __future__ import annotations

from collections.abc import Sequence

from corral.model import AttemptRecord
from corral.model.flow import known_as
from corral.store.interface import Store


def free(store: Store, record: AttemptRecord, others: Sequence[str], now: float) -> str | None:
    """Return the next account of its agent that is not limited, as far as any run knows."""
    agent = record.attempt.agent
    met = {
        each.attempt.account
        for each in store.attempts(record.run)
        if (each.node, each.lane, each.attempt.agent) == (record.node, record.lane, agent)
        and each.attempt.error
        and each.attempt.error.kind == "rate_limit"
        and each.until is None  # it did not say until when: not again in this run
    }
    able = (name for name in others if name not in met and store.cooldown(known_as(agent, name), now) is None)
    return next(able, None)


def soonest(store: Store, agent: str, names: Sequence[str], now: float) -> float | None:
    """Return when the first of several accounts that are all limited may be asked again."""
    found = [store.cooldown(known_as(agent, name), now) for name in names]
    return min((cooling[0] for cooling in found if cooling), default=None)
