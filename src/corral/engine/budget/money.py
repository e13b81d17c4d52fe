"""Money as users see it: limits and their use, costs by any dimension, quotas, a halt of everything."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from statistics import mean
from typing import get_args

from msgspec import Struct, structs

from corral import amounts
from corral.attempt import budget_figures
from corral.attempt.budget_figures import run_held_usd
from corral.engine.context import Context
from corral.model import OPEN, Entry, Run, RunPlan
from corral.model.errors import BadRequest, Conflicting
from corral.model.flow import known_as
from corral.model.money import (
    Bound,
    Budget,
    By,
    CostOverview,
    CostSum,
    Limit,
    LimitStatus,
    Quota,
    QuotaWindow,
    Window,
    dollars,
)
from corral.rules.flows.rehearsal import RehearsalStep, Stubs, rehearse
from corral.rules.money import costs
from corral.rules.money import limits as budget
from corral.store.interface import Store
from corral.world import clock

SHARED: tuple[Window, ...] = ("day", "month", "ceiling")
MOST_NAMES: dict[Window, str] = {
    "node": "for a task", "run": "for each run", "day": "a day", "month": "a month", "ceiling": "a month, the ceiling",
    "halt": "for everything: it is halted",
}  # fmt: skip


def zone_of(settings: Budget) -> tzinfo:
    return clock.zone(settings.zone) or UTC


def zone_name(settings: Budget) -> str:
    """Name the time zone of days and months."""
    return settings.zone or time.strftime("%Z")


class Money:
    """What the runs of one engine cost, and a halt of all of them."""

    def __init__(self, context: Context, poke: Callable[[str], None]) -> None:
        self._context, self._poke = context, poke

    @property
    def _store(self) -> Store:
        return self._context.store

    # --- limits

    def standings(self, settings: Budget) -> list[LimitStatus]:
        """Return every limit, and how much of it is used."""
        kept, now, zone = self._store.ledger, time.time(), zone_of(settings)
        kept.release_dead(now)
        found: list[LimitStatus] = []
        for limit in (*settings.limits, *kept.limits()):
            if limit.window not in SHARED:
                found.append(LimitStatus(limit=limit))
                continue
            bound = Bound(limit=limit, since=budget.since(limit.window, now, zone))
            spent, reserved = kept.spent_and_reserved(bound)
            until = budget.until(limit.window, now, zone)
            found.append(LimitStatus(limit=limit, spent=dollars(spent), reserved=dollars(reserved), until=until))
        return found

    def spending(self, settings: Budget) -> dict[str, tuple[float, float]]:
        """Return what is spent and reserved today and this month."""
        kept, now, zone = self._store.ledger, time.time(), zone_of(settings)
        windows: tuple[Window, ...] = ("day", "month")
        held = {
            window: kept.spent_and_reserved(
                Bound(limit=Limit(window=window, usd=0.0), since=budget.since(window, now, zone))
            )
            for window in windows
        }
        return {window: (dollars(spent), dollars(reserved)) for window, (spent, reserved) in held.items()}

    def _set_limit(self, limit: Limit, by: str) -> None:
        if not 0 < limit.usd < float("inf"):
            raise BadRequest(
                f"{amounts.usd(limit.usd)}: a budget is more than 0", hint="`corral budget reset` takes a limit away"
            )
        if limit.window == "ceiling":
            self._own_ceiling(by, lower_than=limit.usd)
        self._store.ledger.set_limit(limit, by, time.time())

    def reset(self, agent: str, repo: str, by: str, *, ceiling: bool = False) -> int:
        """Remove limits that were set by hand, all or those of an agent or a repository; the ceiling only if asked."""
        kept, gone = self._store.ledger, 0
        if ceiling:
            self._own_ceiling(by, lower_than=0.0)
            gone += kept.drop_limits("ceiling", every=True)
        windows: tuple[Window, ...] = ("run", "day", "month")
        return gone + sum(kept.drop_limits(each, agent=agent, repo=repo, every=not (agent or repo)) for each in windows)

    def ceilings(self) -> list[float]:
        """Return the ceilings that were set by hand."""
        return [limit.usd for limit in self._store.ledger.limits() if limit.window == "ceiling"]

    def _own_ceiling(self, by: str, lower_than: float) -> None:
        for limit in self._store.ledger.limits():
            owner = limit.where.removeprefix("set by ")
            if limit.window == "ceiling" and owner != by and not 0 < lower_than <= limit.usd:
                raise BadRequest(
                    f"the ceiling of {amounts.usd(limit.usd)} was set by {owner}",
                    hint="only they lift it; you may lower it",
                )

    def allow(self, entry: Entry) -> str | None:
        """Let a run continue past a limit, as an answer says; return what follows from it."""
        usd, windows = budget.granted_raise(entry)
        if not usd:
            return "the run stays over"
        kept, now = self._store.ledger, time.time()
        for window in windows:
            kept.allow(entry.run, window, usd, entry.answered_by or "", now)
        return None

    async def set_limits(self, limits: Sequence[Limit], by: str) -> None:
        """Set limits of money; one of an agent or a repository that there is none of would hold nothing."""
        checked = [await self._check_limit(limit) for limit in limits]
        for limit in checked:
            self._set_limit(limit, by)

    async def _check_limit(self, limit: Limit) -> Limit:
        """Return a limit with the folder that runs name their repository by; refuse names that nothing has."""
        from corral import agents  # noqa: PLC0415 -- slow to load, and rarely needed

        place = Path(limit.repo)
        if limit.repo and not place.is_dir():
            raise BadRequest(f"{limit.repo}: there is no such folder", hint="a repository, or a folder in one")
        if limit.agent:
            agents.find(limit.agent, self._context.settings.load(place).agents)
        return structs.replace(limit, repo=await self.repository_folder(limit.repo))

    @staticmethod
    async def repository_folder(folder: str) -> str:
        """Return the folder that runs name a repository by; what is none, or is gone, as it is."""
        from corral.world.git import discovery  # noqa: PLC0415 -- rarely needed

        found = await discovery.discover(Path(folder)) if folder and Path(folder).is_dir() else None
        return str(found.repository.folder) if found else folder

    # --- costs

    def overview(self, settings: Budget, *, since: float = 0.0, repo: str = "") -> CostOverview:
        """Return sums by day and by every dimension, and the state of all limits, from one look at the ledger."""
        kept, zone = self._store.ledger, zone_of(settings)
        sums, quarters = kept.cost_sums(since, repo), kept.cost_quarters(since, repo)
        spent = self.spending(settings)
        others: tuple[By, ...] = tuple(by for by in get_args(By) if by != "day")
        agents: defaultdict[str, tuple[list[CostSum], list[CostSum]]] = defaultdict(lambda: ([], []))
        for place, found in enumerate((quarters, sums)):
            for each in found:
                agents[each.agent][place].append(each)
        return CostOverview(
            zone=zone_name(settings),
            today=spent["day"],
            month=spent["month"],
            days=costs.day_table(quarters, sums, zone),
            tables={by: costs.table(sums, by) for by in others},
            agent_days={name: costs.day_table(*of_agent, zone) for name, of_agent in agents.items()},
            standings=tuple(self.standings(settings)),
            quotas=tuple(self.known_quotas()),
        )

    def metrics(self, settings: Budget) -> str:
        """Return what is known, for Prometheus."""
        runs = self._store.pages.counts()
        gauges = {
            "corral_inbox_waiting": float(len(self._store.inbox.waiting())),
            "corral_runs_open": float(sum(count for status, count in runs.items() if status in OPEN)),
        }
        return costs.prometheus(self._store.ledger.totals(), self.standings(settings), gauges)

    def known_quotas(self) -> list[Quota]:
        """Return what is known of the limits of every account: those it ran into, and the state of its windows."""
        found = {known_as(each.agent, each.account): each for each in self._store.accounts.quotas(time.time())}
        windows: dict[str, list[QuotaWindow]] = {}
        for window in self._store.accounts.windows():
            windows.setdefault(window.agent, []).append(window)
        for name, reported in windows.items():
            agent, _, account = name.partition("@")
            before = found.get(name, Quota(agent=agent, account=account or None, at=0.0))
            at = max(before.at, *(window.at for window in reported))
            found[name] = structs.replace(before, at=at, windows=tuple(reported))
        return [found[name] for name in sorted(found)]

    def spent_usd(self, run: str, node: str = "") -> float:
        """Return what a run has spent so far, or one node of it."""
        return run_held_usd(self._store, run, node)[0]

    def windows(self, accounts: Collection[str]) -> list[QuotaWindow]:
        """Return the state of the present windows of some accounts."""
        return budget_figures.account_windows(self._store, accounts)

    def windows_of(self, run: Run) -> list[QuotaWindow]:
        """Return the state of the windows of the accounts whose dollars are notional in a run."""
        return self.windows(budget_figures.notional_accounts(run))

    def usual_cost(self, run: str) -> tuple[float, float, float] | None:
        """Return what attempts like those of a run of one task cost here before; None where too little is known."""
        nodes = self._store.run(run).plan.flow.nodes
        agent = nodes[0].agent
        if len(nodes) != 1:
            return None
        return costs.usual(self._store.ledger.paid_before(agent.name, agent.model, nodes[0].task.type))

    def estimate(self, plan: RunPlan, stubs: Sequence[str] = (), stub_file: str = "") -> Estimate:
        """Say what would happen and the estimated cost, with nodes that end as stubs say, or else well."""
        from corral.rules.flows.rehearsal import read_stubs  # noqa: PLC0415

        settings, store = self._context.settings.load(Path(plan.repo)), self._store
        fixed = {name: profile.cost_usd for name, profile in settings.agents.items()}
        outcomes = read_stubs(stubs, stub_file, plan.flow)
        return estimate(plan, store, self.standings(settings.budget), fixed, outcomes)

    # --- a halt of everything

    def halt(self, by: str) -> list[str]:
        """Stop every run now, of all processes, and let none start; return which."""
        now = time.time()
        with self._store.transaction():
            self._store.ledger.set_limit(Limit(window="halt", usd=0.0), by, now)
            runs = [run for run, _, _ in reversed(self._store.pages.owned_runs())]
            for run in runs:
                self._store.order(run, "stop", f"{by} (halt)", now)
        for run in runs:
            self._poke(run)
        return runs

    def unhalt(self) -> bool:
        return self._store.ledger.drop_limits("halt") > 0

    def halted_by(self) -> str | None:
        """Return who halted everything, if someone did."""
        found = next((limit for limit in self._store.ledger.limits() if limit.window == "halt"), None)
        return found.where if found else None

    def refuse_halted(self) -> None:
        if where := self.halted_by():
            raise Conflicting(f"everything is halted ({where})", hint="corral halt --off")


class Estimate(Struct, frozen=True, kw_only=True):
    """What would happen, and what it would cost if everything cost as much as before."""

    steps: tuple[RehearsalStep, ...]
    status: str  #: the run would end as
    reason: str = ""
    usd: float | None  #: None: nothing is known of any of its agents
    known: Mapping[str, tuple[float, int]]  #: agent -> mean cost of an attempt, and of how many; 0: a fixed price
    unknown: tuple[str, ...]
    limit_usd: float | None  #: of the flow itself
    limits: tuple[LimitStatus, ...]  #: all others that would hold, and their use

    def lines(self) -> list[str]:
        """Say it in plain words."""
        found = [f"  wave {each.wave}: {each.node}{_about(each)}" for each in self.steps]
        found.append(f"it would end as {self.status}" + (f": {self.reason}" if self.reason else ""))
        costs = [
            f"{agent} {amounts.usd(usd)} an attempt ({f'n={count}' if count else 'fixed'})"
            for agent, (usd, count) in self.known.items()
        ]
        about = (
            "unknown" if self.usd is None else f"about {amounts.usd(self.usd)}" + (" and more" if self.unknown else "")
        )
        found.append(f"cost: {about}" + (f"; {', '.join(costs)}" if costs else ""))
        found += [f"never seen here: {', '.join(self.unknown)}"] if self.unknown else []
        own = [] if self.limit_usd is None else [f"limit: {amounts.usd(self.limit_usd)} for this flow"]
        return [*found, *(own + [_limit_text(each) for each in self.limits] or ["limit: none"])]


def _about(step: RehearsalStep) -> str:
    return (f"  {step.agent}" if step.agent else "") + (f"  ({step.words})" if step.words else "")


def _limit_text(limit_status: LimitStatus) -> str:
    limit = limit_status.limit
    name = f"limit: {amounts.usd(limit.usd)} {MOST_NAMES[limit.window]}" + (f" of {limit.agent}" if limit.agent else "")
    if limit_status.spent is None or limit_status.reserved is None:
        return f"{name} ({limit.where})"
    reserved = f", {amounts.usd(limit_status.reserved)} reserved" if limit_status.reserved else ""
    left = max(0.0, limit.usd - limit_status.spent - limit_status.reserved)
    return f"{name}: {amounts.usd(left)} left, {amounts.usd(limit_status.spent)} spent{reserved} ({limit.where})"


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
    used = [_agent_name(step.agent, named) for step in played.steps if step.agent]
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


def _agent_name(shown: str, named: Iterable[str]) -> str:
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
