"""Notional dollars: the cost of agents that are logged in with a subscription, priced as the API would be."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from corral.model import Run
from corral.model.flow import known_as
from corral.model.money import QuotaWindow
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.machines.resolved_agent import ResolvedAgent


def is_notional(resolved: ResolvedAgent) -> bool:
    """Return whether an agent works with a login and no key, so that its dollars are no bill."""
    facts = resolved.agent.facts
    if facts.local or resolved.profile.cost_usd is not None or any(resolved.env.get(name) for name in facts.keys):
        return False
    return any(resolved.login_file(name) is not None for name in facts.login)


def accounts_of(run: Run) -> list[str]:
    """Return the accounts whose dollars are notional in a run."""
    attempts = [attempt for node in run.nodes for attempt in node.attempts if attempt.cost.notional is True]
    return sorted({known_as(attempt.agent, attempt.account) for attempt in attempts})


def windows_of(store: Store, names: Collection[str]) -> list[QuotaWindow]:
    """Return how the present windows of some accounts stand, where a provider or an agent reported it."""
    now, known = time.time(), [each for each in store.accounts.seen() if each.agent in names and each.used is not None]
    return [each for each in known if each.resets is None or each.resets > now]
