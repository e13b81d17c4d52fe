"""Who else could do it for what is left: of the agents that may step in, the cheapest that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.machines.resolved_agent import ResolvedAgent
from corral.model.errors import CorralError
from corral.model.flow import AgentChoice
from corral.model.money import Budget
from corral.rules.money import limits
from corral.store.interface import Store

AgentResolver = Callable[[str, str | None], ResolvedAgent]


def cheapest(
    store: Store, resolve: AgentResolver, choices: Iterable[AgentChoice], kind: str | None, left_usd: float
) -> tuple[AgentChoice, float] | None:
    """Return the agent that would most likely cost least, of those for whom enough is left; and how much that is."""
    found: list[tuple[float, int, AgentChoice]] = []
    for place, choice in enumerate(choices):
        try:
            resolved = resolve(choice.name, choice.account)
        except CorralError:  # it is not installed, or not logged in
            continue
        usd = _expected_usd(store, resolved, choice, kind, resolved.budget)
        if usd <= left_usd:
            found.append((usd, place, choice))
    return (min(found)[2], min(found)[0]) if found else None


def _expected_usd(
    store: Store, resolved: ResolvedAgent, choice: AgentChoice, kind: str | None, settings: Budget
) -> float:
    fixed = 0.0 if resolved.agent.facts.local else resolved.profile.cost_usd
    model = choice.model or resolved.profile.model
    return limits.to_reserve(fixed, store.ledger.paid_before(choice.name, model, kind), settings)[0]
