"""The figures of a budget: settings and limits of an attempt, what its run spent, its cost as far as it is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, structs

from corral import amounts
from corral.config import loader
from corral.model import OPEN, Attempt, Cost, NodeState, Run, RunPlan, Tokens
from corral.model.errors import CorralError
from corral.model.flow import Node, known_as
from corral.model.money import Bound, Budget, Expected, Limit, PriceList, QuotaWindow, dollars
from corral.rules.money import limits as budget
from corral.rules.money.costs import Prices
from corral.store.interface import Store
from corral.store.records import Child

if TYPE_CHECKING:
    from corral.machines.resolved_agent import ResolvedAgent

RAISE_MARGIN = 1.25  #: attempts differ: of what they usually cost, a little more is offered
CENTS = 20.0  #: so many times its tokens' price, a reported cost may be in cents


class Terms(Struct, frozen=True, kw_only=True):
    """On what terms an attempt works: what the user's settings, its agent and its run say."""

    budget: Budget
    fixed_usd: float | None = None
    local: bool = False  #: its models run here, or it asks none: it costs nothing
    tells: bool = True  #: it reports tokens or money; else its cost is estimated
    names_cost: bool = False  #: its settings say where it prints its cost: without it, that is unknown
    metered: bool = False  #: its provider is asked through us
    reports: bool = True  #: what it cost can be known at its end, by its own word
    notional: bool = False  #: its agent is logged in with a subscription: its dollars are no bill
    flow_usd: float | None = None  #: of the whole run
    go_on: bool = False  #: past limits of days and months, up to the ceiling: the user said so beforehand


def bounds_above(store: Store, run: str) -> list[Bound]:
    """Return the limits of every task and flow above a run; none for a run that a user started."""
    above = _above(store, run)
    waiting = tuple(child.attempt for child in above if not _has_fixed_price(store, child))
    found: list[Bound] = []
    for child in above:
        plan = store.run(child.parent).plan
        nodes = {node.id: node for node in plan.flow.nodes}
        node = nodes.get(child.node) or nodes.get(child.node.rpartition(".")[0])
        own_usd, flow_usd = node.task.budget_usd if node else None, budget.of_run(plan.flow)
        limits = [
            *([Limit(window="node", usd=own_usd, where="the task that started it")] if own_usd is not None else []),
            *([Limit(window="run", usd=flow_usd, where="the run that started it")] if flow_usd is not None else []),
        ]
        found += [
            Bound(limit=limit, run=child.parent, node=child.node, spender=run, waiting=waiting) for limit in limits
        ]
    return found


def _above(store: Store, run: str) -> list[Child]:
    """Return how a run came to be, and how the run above it did, up to the one that a user started."""
    lineage, found = store.lineage, list[Child]()
    while (child := lineage.of(run)) is not None:
        found.append(child)
        run = child.parent
    return found


def _has_fixed_price(store: Store, child: Child) -> bool:
    """Return whether the attempt above a run is sure to be charged what is reserved for it."""
    records = [each for each in store.attempts(child.parent) if each.attempt.id == child.attempt]
    return any(record.cost_usd is not None for record in records)


def run_allowed_usd(store: Store, run: str) -> float:
    """Return by how much a user let a run go past its own budget."""
    kept = store.ledger
    return max(kept.allowed_overrun(Bound(limit=Limit(window=window, usd=0.0), run=run)) for window in ("node", "run"))


def run_held_usd(store: Store, run: str, node: str = "") -> tuple[float, float]:
    """Return what a run and its children have spent so far, or one node of it, and what is reserved for them."""
    return store.ledger.spent_and_reserved(
        Bound(limit=Limit(window="node" if node else "run", usd=0.0), run=run, node=node)
    )


def needed_usd(store: Store, run: str, *, besides: str = "") -> float:
    """Return what the tasks of a run that are not done are expected to cost; one of them can be left out.

    Those at work are not counted: what is reserved for them counts already.
    """
    plan = store.run(run).plan
    nodes = {node.id: node for node in plan.flow.nodes}
    settings, fixed = _raise_settings(plan)
    ledger, total = store.ledger, 0.0
    left_out = {besides, *(line.node for line in ledger.open_lines(run).values())}
    for state in store.nodes(run):
        node = nodes.get(state.id) or nodes.get(state.id.rpartition(".")[0])
        if node is None or node.kind != "task" or state.id in left_out or not _nodes_still_open(state, nodes):
            continue
        paid = ledger.paid_before(node.agent.name, node.agent.model, node.task.type)
        usd, expected = budget.to_reserve(fixed.get(node.agent.name), paid, settings)
        total += likely_raise_usd(usd, expected)
    return total


def likely_raise_usd(usd: float, expected: Expected) -> float:
    """Return what most likely is enough for one attempt."""
    return RAISE_MARGIN * usd if expected == "usual" else usd


def _nodes_still_open(state: NodeState, nodes: dict[str, Node]) -> bool:
    """Tell whether a node is still to be done; one that became several items is not counted besides them."""
    if state.id in nodes and nodes[state.id].fans_out:
        return False
    waits = state.status == "skipped" and "over_budget" in (state.reason or "")
    return waits or state.status in (*OPEN, "over_budget")


def _raise_settings(plan: RunPlan) -> tuple[Budget, dict[str, float | None]]:
    try:
        settings = loader.load(Path(plan.repo))
    except CorralError:  # they have become wrong since
        return Budget(), {}
    return settings.budget, {name: profile.cost_usd for name, profile in settings.agents.items()}


class KnownCost:
    """Counts what an agent's provider answered, and says what the attempt cost so far."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.prices = Prices(PriceList(), 0.0)
        self.local = False  #: its models run here: they cost nothing
        self.beside_usd = 0.0  #: what other agents cost that worked for this attempt
        self._answers: dict[int, tuple[str | None, Tokens]] = {}
        self._priced: dict[int, float] = {}
        self._unpriced: set[int] = set()

    def add(self, model: str | None, tokens: Tokens, answer: int) -> None:
        """Count what passed between the agent and its provider as part of an answer."""
        _, before = self._answers.get(answer, (None, Tokens()))
        self._answers[answer] = (model, before + tokens)
        self._unpriced.add(answer)

    @property
    def tokens(self) -> Tokens:
        return sum((tokens for _, tokens in self._answers.values()), Tokens())

    @property
    def whole(self) -> bool:
        """Tell whether every answer that was metered has a price."""
        return len(self._priced) == len(self._answers)

    def highest_usd(self, besides: Container[int] = ()) -> float | None:
        """Return what the dearest answer cost, but for some that have not ended; None where none has a price."""
        self.metered_cost()
        return max((usd for answer, usd in self._priced.items() if answer not in besides), default=None)

    def has_price(self, answer: int) -> bool:
        """Tell whether the price of an answer is known, as far as it was metered."""
        self.metered_cost()
        return answer in self._priced or answer not in self._answers

    def metered_cost(self) -> Cost:
        """Return what all answers with a price cost; unknown where there is none."""
        for answer in sorted(self._unpriced):
            model, tokens = self._answers[answer]
            cost = self.prices.cost(model or self._attempt.model, tokens, local=self.local)
            if cost.usd is not None:
                self._priced[answer] = cost.usd
        self._unpriced.clear()
        if not self._priced:
            return Cost()
        return Cost(round(sum(self._priced.values()) + self.beside_usd, 9), "metered")

    def computed_cost(self, tokens: Tokens) -> Cost:
        """Return what tokens cost that the agent itself reports."""
        if tokens == Tokens():
            return Cost()
        return self.prices.cost(self._attempt.model, tokens, local=self.local)

    def settled_cost(self, note: Callable[[str], None], *, whole: bool) -> Cost:
        """Return what it cost as far as that is known; a contradiction is noted.

        `whole`: the agent reported to its end. One that was cut reports too little without contradicting the meter.
        """
        reported = self._attempt.cost
        if not self._answers:
            return self._by_its_word(reported, note)
        metered = self.metered_cost()
        found = budget.settled_cost(reported, metered)
        if found.disputed is True and not whole and found.source == "metered":
            return structs.replace(found, disputed=UNSET)
        if found.disputed is True:
            note(
                f"it reports {amounts.usd(reported.usd)}, but {amounts.usd(metered.usd)} was metered: the larger counts"
            )
        return found

    def _by_its_word(self, reported: Cost, note: Callable[[str], None]) -> Cost:
        computed = self.computed_cost(self._attempt.tokens)
        if reported.usd is None:
            return Cost() if computed.usd is None else Cost(dollars(computed.usd), computed.source)
        if computed.usd and reported.usd > CENTS * computed.usd and computed.usd > 0.001:
            note(
                f"it reports {amounts.usd(reported.usd)}, but its tokens cost about {amounts.usd(computed.usd)}: cents?"
            )
        return reported


def is_notional(resolved: ResolvedAgent) -> bool:
    """Return whether an agent works with a login and no key, so that its dollars are no bill."""
    facts = resolved.agent.facts
    if facts.local or resolved.profile.cost_usd is not None or any(resolved.env.get(name) for name in facts.keys):
        return False
    return any(resolved.login_file(name) is not None for name in facts.login)


def notional_accounts(run: Run) -> list[str]:
    """Return the accounts whose dollars are notional in a run."""
    attempts = [attempt for node in run.nodes for attempt in node.attempts if attempt.cost.notional is True]
    return sorted({known_as(attempt.agent, attempt.account) for attempt in attempts})


def account_windows(store: Store, names: Collection[str]) -> list[QuotaWindow]:
    """Return the state of the present windows of some accounts, where a provider or an agent reported it."""
    now, known = (
        time.time(),
        [each for each in store.accounts.windows() if each.agent in names and each.used is not None],
    )
    return [each for each in known if each.resets is None or each.resets > now]
