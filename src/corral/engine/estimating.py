"""About how dear a flow will be, from what its agents cost here before."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from msgspec import Struct

from corral.model import RunPlan
from corral.money import dollars
from corral.rules.flows.rehearsal import Step, rehearse
from corral.world.store.sqlite import Store


class Estimate(Struct, frozen=True, kw_only=True):
    """What would happen, and what it would cost if everything cost as much as before."""

    steps: tuple[Step, ...]
    status: str
    usd: float | None  #: None: nothing is known of any of its agents
    known: Mapping[str, tuple[float, int]]  #: agent -> mean cost of an attempt, and of how many
    unknown: tuple[str, ...]
    limit_usd: float | None

    def lines(self) -> list[str]:
        """Say it in plain words."""
        found = [f"  wave {each.wave}: {each.node}{_about(each)}" for each in self.steps]
        costs = [f"{agent} ${usd:.4f} an attempt (n={count})" for agent, (usd, count) in self.known.items()]
        about = "unknown" if self.usd is None else f"about ${self.usd:.2f}" + (" and more" if self.unknown else "")
        found.append(f"cost: {about}" + (f"; {', '.join(costs)}" if costs else ""))
        found += [f"never seen here: {', '.join(self.unknown)}"] if self.unknown else []
        found.append("limit: none" if self.limit_usd is None else f"limit: ${self.limit_usd:.2f}")
        return found


def _about(step: Step) -> str:
    return (f"  {step.agent}" if step.agent else "") + (f"  ({step.words})" if step.words else "")


def estimate(plan: RunPlan, store: Store) -> Estimate:
    """Rehearse a plan and add up what its attempts cost on average so far."""
    played = rehearse(plan.flow)
    used = [step.agent.partition(":")[0] for step in played.steps if step.agent]
    history = {agent: store.costs_of(agent) for agent in dict.fromkeys(used) if agent != "shell"}
    known = {agent: (dollars(mean(costs)), len(costs)) for agent, costs in history.items() if costs}
    total = sum(known[agent][0] for agent in used if agent in known)
    return Estimate(
        steps=played.steps,
        status=played.status,
        usd=dollars(total) if known or not history else None,
        known=known,
        unknown=tuple(agent for agent, costs in history.items() if not costs),
        limit_usd=plan.flow.budget_usd,
    )
