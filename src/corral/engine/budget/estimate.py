"""About how dear a flow will be, from fixed prices and from what its agents cost here before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from msgspec import Struct

from corral.model import RunPlan
from corral.model.money import Limit, LimitStatus, Window, dollars
from corral.rules.flows.rehearsal import RehearsalStep, Stubs, rehearse
from corral.store.interface import Store

NAMES: dict[Window, str] = {
    "node": "for a task", "run": "for each run", "day": "a day", "month": "a month", "ceiling": "a month, the ceiling",
    "halt": "for everything: it is halted",
}  # fmt: skip


class Estimate(Struct, frozen=True, kw_only=True):
    """What would happen, and what it would cost if everything cost as much as before."""

    steps: tuple[RehearsalStep, ...]
    status: str  #: the run would end as
    reason: str = ""
    usd: float | None  #: None: nothing is known of any of its agents
    known: Mapping[str, tuple[float, int]]  #: agent -> mean cost of an attempt, and of how many; 0: a fixed price
    unknown: tuple[str, ...]
    limit_usd: float | None  #: of the flow itself
    limits: tuple[LimitStatus, ...]  #: all others that would hold, and how they stand

    def lines(self) -> list[str]:
        """Say it in plain words."""
        found = [f"  wave {each.wave}: {each.node}{_about(each)}" for each in self.steps]
        found.append(f"it would end as {self.status}" + (f": {self.reason}" if self.reason else ""))
        costs = [
            f"{agent} ${usd:.4f} an attempt ({f'n={count}' if count else 'fixed'})"
            for agent, (usd, count) in self.known.items()
        ]
        about = "unknown" if self.usd is None else f"about ${self.usd:.2f}" + (" and more" if self.unknown else "")
        found.append(f"cost: {about}" + (f"; {', '.join(costs)}" if costs else ""))
        found += [f"never seen here: {', '.join(self.unknown)}"] if self.unknown else []
        own = [] if self.limit_usd is None else [f"limit: ${self.limit_usd:.2f} for this flow"]
        return [*found, *(own + [_limit(each) for each in self.limits] or ["limit: none"])]


def _about(step: RehearsalStep) -> str:
    return (f"  {step.agent}" if step.agent else "") + (f"  ({step.words})" if step.words else "")


def _limit(limit_status: LimitStatus) -> str:
    limit = limit_status.limit
    name = f"limit: ${limit.usd:.2f} {NAMES[limit.window]}" + (f" of {limit.agent}" if limit.agent else "")
    if limit_status.spent is None or limit_status.reserved is None:
        return f"{name} ({limit.where})"
    held = f", ${limit_status.reserved:.2f} held" if limit_status.reserved else ""
    left = max(0.0, limit.usd - limit_status.spent - limit_status.reserved)
    return f"{name}: ${left:.2f} left, ${limit_status.spent:.2f} spent{held} ({limit.where})"


def estimate(
    plan: RunPlan,
    store: Store,
    standings: Sequence[LimitStatus],
    fixed: Mapping[str, float | None],
    stubs: Stubs | None = None,
) -> Estimate:
    """Rehearse a plan, add up what its attempts cost on average so far, and name the limits that would hold."""
    named = dict.fromkeys(
        each.name for node in plan.flow.nodes for each in (node.agent, *node.rivals, *node.fallback) if each.name
    )
    costs = {agent: found for agent in named if agent != "shell" and (found := store.costs_of(agent))}
    means = {agent: mean(found) for agent, found in costs.items()}
    means |= {agent: usd for agent in named if (usd := fixed.get(agent)) is not None}
    played = rehearse(plan.flow, plan.retry, stubs, means)
    used = [_name(step.agent, named) for step in played.steps if step.agent]
    history = [agent for agent in dict.fromkeys(used) if agent != "shell"]
    known = {
        agent: (dollars(means[agent]), 0 if fixed.get(agent) is not None else len(costs[agent]))
        for agent in history
        if agent in means
    }
    total = sum(known[agent][0] for agent in used if agent in known)
    return Estimate(
        steps=played.steps,
        status=played.status,
        reason=played.reason,
        usd=dollars(total) if known or not history else None,
        known=known,
        unknown=tuple(agent for agent in history if agent not in known),
        limit_usd=plan.flow.budget_usd,
        limits=(*_own(plan), *(each for each in standings if _holds(each.limit, plan, used))),
    )


def _name(shown: str, named: Iterable[str]) -> str:
    """Return the name of an agent that is shown with its model and its account."""
    fits = [name for name in named if shown == name or shown.startswith((f"{name}:", f"{name}@"))]
    return max(fits, key=len, default=shown.partition(":")[0])


def _own(plan: RunPlan) -> list[LimitStatus]:
    """Return what the tasks of a plan may cost each."""
    priced = [(node.id, node.task.budget_usd) for node in plan.flow.nodes]
    return [
        LimitStatus(limit=Limit(window="node", usd=usd, where=f"`{name}`")) for name, usd in priced if usd is not None
    ]


def _holds(limit: Limit, plan: RunPlan, agents: Sequence[str]) -> bool:
    """Tell whether a limit binds some attempt of a plan."""
    if plan.go_on and limit.window not in ("ceiling", "halt"):
        return False
    return limit.agent in ("", *agents) and limit.repo in ("", plan.repo)
