"""The money of one attempt: reserved before it starts, counted while it works, settled at its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC

from msgspec import structs

from corral import amounts
from corral.attempt import budget_figures
from corral.attempt.budget_figures import KnownCost, Terms
from corral.config.policies import price_list
from corral.machines.request_count import MOST_UNPRICED, RequestCount
from corral.model import AttemptRecord, Cost, CostSource, Question, Tokens
from corral.model.flow import Task
from corral.model.money import TINY, Bound, Budget, Expected, LedgerLine, Limit, PaidAttempt, Refusal
from corral.model.values import usd_or_none
from corral.rules.money import costs, limits
from corral.rules.money.limits import Spender
from corral.store.interface import Store
from corral.world import process_identity
from corral.world.clock import zone

GROWS = 0.02  #: of what is reserved: smaller steps are not written down each
WRITE_SECONDS = 1.0


class AttemptBudget:
    """Reserves, counts and settles; `over` says why the attempt is to stop."""

    def __init__(self, record: AttemptRecord, store: Store, task: Task, note: Callable[[str], None]) -> None:
        self._record, self._attempt, self._task, self._note = record, record.attempt, task, note
        self._ledger = store.ledger
        self._store = store
        self._terms = Terms(budget=Budget())
        self._opened = False  # else its attempt worked in a process that is gone: only record and ledger know of it
        self._bounds: list[Bound] = []
        self._above: list[Bound] = []  # limits of the tasks and runs above its run, which it shares
        self._who = Spender(run=record.run, node=record.node, agent=record.attempt.agent, repo="")
        self._known = KnownCost(record.attempt)
        self._loading: asyncio.Task[None] | None = None  # of prices, where no limit waits for them
        self._expected: tuple[float, Expected] = (0.0, "assumed")
        self._held = self._spent = self._written = 0.0
        self._wrote_at = 0.0
        self._warned: set[str] = set()
        self.below_usd: Callable[[], float] = lambda: 0.0  #: what runs that it started have cost or were promised
        self.asked_nobody: Callable[[], bool] = lambda: False  #: whether no request of its agent can have cost money
        self.count = RequestCount()  #: of its requests to its provider
        self.count.is_priced, self.count.refusal = self._is_priced, self._refusal
        self.count.affords, self.count.waits = self._affords, self._note_wait
        self.count.changed = self._write_risk
        self._risk: float | None = 0.0  # as it is written: what may be spent before it is counted
        self.reported_whole = True  #: its agent came to report at the end of every turn
        self.over: Refusal | None = None
        self.too_long: str | None = None  #: why it is to stop, where it is tokens that are used up

    # --- before the start

    async def open(self, terms: Terms, repo: str) -> Refusal | None:
        """Reserve money for the attempt; return the limit that has no room for it."""
        now = time.time()
        self._terms, self._opened = terms, True
        self._known.prices, self._known.local = costs.Prices(price_list(), now), terms.local
        self._who = structs.replace(self._who, repo=repo, ancestors=tuple(self._ledger.ancestors(self._record.run)))
        self._above = budget_figures.bounds_above(self._store, self._record.run)
        self._bind(now)
        self.count.most = self._most_unpriced()
        if terms.fixed_usd is None and not terms.local:
            if self._bounds or self.count.most is not None:
                await asyncio.to_thread(costs.load_prices)  # later it would hold up all that is heard
            elif terms.metered:
                self._loading = asyncio.create_task(asyncio.to_thread(costs.load_prices))
        return self.reserve()

    def reserve(self) -> Refusal | None:
        """Try to reserve what the attempt is expected to cost; return the limit that has no room for it."""
        line = self._line()
        self._bind(line.at)
        self.over = self._ledger.reserve(line, self._bounds, self._expected[1], self.below_usd())
        if self.over is None and (written := self._ledger.line(line.attempt)):
            self._held = written.reserved
        return self.over

    def has_room(self) -> bool:
        """Tell whether `reserve` has a new answer: there is room by now, or nobody is left to wait for."""
        line = self._line()
        self._bind(line.at)
        self._ledger.release_dead(line.at)  # it may wait for an attempt of a process that is gone
        found = self._ledger.reservable(line, self._bounds, self._expected[1], self.below_usd())
        return not isinstance(found, Refusal) or not found.waits

    def _bind(self, now: float) -> None:
        own = limits.bounds(self._who, self._limits(), now, zone(self._terms.budget.zone) or UTC)
        self._bounds = [*own, *self._above]

    def _line(self) -> LedgerLine:
        """Return what is to be reserved now: while it waited, others may have shown what such attempts cost."""
        attempt, terms = self._attempt, self._terms
        paid = self._ledger.paid_before(attempt.agent, attempt.model, self._task.type)
        self._expected = limits.to_reserve(0.0 if terms.local else terms.fixed_usd, paid, terms.budget)
        return LedgerLine(
            attempt=attempt.id,
            run=self._record.run,
            node=self._record.node,
            agent=attempt.agent,
            account=attempt.account,
            model=attempt.model,
            role=attempt.role,
            type=self._task.type,
            repo=self._who.repo,
            owner=process_identity.own_name(),
            reserved=self._expected[0],
            least=self._ledger.least_before(attempt.agent, attempt.model, self._task.type),
            guessed=self._expected[1] == "assumed" and not terms.metered,
            reports=terms.reports,
            notional=terms.notional,
            patient=self.over is not None and bool(self.over.behind),
            at=time.time(),
        )

    def _limits(self) -> list[Limit]:
        """Gather who limits it: its task, its flow, settings, and what was set by hand."""
        terms, found = self._terms, list[Limit]()
        if self._task.budget_usd is not None:
            found.append(Limit(window="node", usd=self._task.budget_usd, where="the task"))
        if terms.flow_usd is not None:
            found.append(Limit(window="run", usd=terms.flow_usd, where="the flow"))
        shared = self._all_limits()
        return found + [limit for limit in shared if not terms.go_on or limit.window not in ("day", "month")]

    def _all_limits(self) -> list[Limit]:
        """Return the limits that were set anywhere, also those of other agents and repositories."""
        return [*self._terms.budget.limits, *self._ledger.limits()]

    def left_usd(self) -> float | None:
        """Return what it may spend at most, by every limit, itself left out; None where nothing limits it."""
        found: list[float] = []
        for bound in self._bounds:
            spent, reserved = self._held_in(bound, besides=self._attempt.id)
            found.append(bound.limit.usd + self._ledger.allowed_overrun(bound) - spent - reserved)
        return max(0.0, min(found)) if found else None

    def _held_in(self, bound: Bound, besides: str = "") -> tuple[float, float]:
        """Return what is spent and reserved within a bound; what it spawned counts for its own task too."""
        spent, reserved = self._ledger.spent_and_reserved(bound, besides)
        own = bound.limit.window == "node" and not bound.spender
        return (spent + self.below_usd(), reserved) if own else (spent, reserved)

    @property
    def spent_usd(self) -> float:
        """Return what it has spent so far, as far as that is known."""
        return max(self._spent, self._attempt.cost.usd or 0.0, self._terms.fixed_usd or 0.0)

    # --- while it works

    def begin_spending(self) -> None:
        """Note that its agent may spend from now on: if this process dies, what was not counted stays reserved."""
        self._write_risk()

    def _write_risk(self) -> None:
        risk = self._uncounted_usd()
        if risk == self._risk and (risk or self._spent <= self._written):
            return
        self._risk = risk
        if self._spent > self._written:
            self._write(self._known.metered_cost().source)
        self._ledger.risk(self._attempt.id, risk)

    def _uncounted_usd(self) -> float | None:
        """Return what it may spend before that is counted: of a metered agent its open requests; None: all."""
        if self._terms.local:
            return 0.0
        if self._terms.fixed_usd is not None or not self._terms.metered:
            return None
        if not self.count.passed:
            return 0.0
        if not self._may_price or self.unpriced_requests or not self._known.whole:
            return None
        dearest = self._known.highest_usd(besides=self.count.open)
        return len(self.count.open) * (self._expected[0] if dearest is None else dearest)

    def meter(self, model: str | None, tokens: Tokens, answer: int) -> None:
        """Count what passed between the agent and its provider."""
        self._known.add(model, tokens.within_limits, answer)
        if self._may_price:
            self._count(self._known.metered_cost())
        self._count_tokens(self.metered_tokens)

    @property
    def metered_tokens(self) -> Tokens:
        return self._known.tokens

    @property
    def known_usd(self) -> float | None:
        """Return what is known to be spent so far; None where nothing is."""
        return self._spent or None

    @property
    def _may_price(self) -> bool:
        """Tell whether prices are wanted, and loading them holds up nothing."""
        if self._terms.fixed_usd is not None:
            return False
        return bool(self._bounds) or (self._loading is not None and self._loading.done())

    def count_reported(self, usd: float, tokens: Tokens) -> None:
        """Count what the agent itself says it spent."""
        if self._terms.fixed_usd is None:
            self._count(Cost(usd, "reported"))
        self._count_tokens(tokens)

    def count_other_agent(self, usd: float) -> None:
        """Count what another agent cost that worked for this attempt: the meter of its own agent does not see it."""
        self._known.beside_usd += usd

    def count_reported_tokens(self, tokens: Tokens) -> None:
        """Count what an agent says that knows no prices."""
        if self._may_price and self._attempt.cost.usd is None:
            self._count(self._known.computed_cost(tokens))
        self._count_tokens(tokens)

    @property
    def requests(self) -> int | None:
        """Return how many requests that may cost money passed; None where they do not pass by us."""
        return self.count.passed

    @property
    def unpriced_requests(self) -> int:
        return self.count.unpriced

    def _most_unpriced(self) -> int | None:
        terms = self._terms
        if terms.local or terms.fixed_usd is not None:
            return None
        limited = self._bounds or self._all_limits()
        return terms.budget.max_unpriced_requests or (MOST_UNPRICED if limited else None)

    def _is_priced(self, answer: int) -> bool:
        """Return whether the price of an answer is known; where nothing is limited, nobody asks before the end."""
        return self.count.most is None or self._known.has_price(answer)

    def _affords(self, requests: int) -> bool:
        """Return whether so many requests at once fit in what is left, if each costs as much as the dearest so far.

        Before the first answer nobody knows what one costs: at most what the whole attempt is expected to.
        """
        if not self._bounds or self._terms.local or self._terms.fixed_usd is not None:
            return True
        dearest, left = self._known.highest_usd(besides=self.count.open), self.left_usd()
        each = self._expected[0] if dearest is None else dearest
        return left is None or self._spent + requests * each <= left + TINY

    def _note_wait(self) -> None:
        if "requests" not in self._warned:
            self._warned.add("requests")
            self._note("its requests wait for one another: all at once could cost more than is left of its budget")

    def _refusal(self) -> str | None:
        return "its budget is used up" if self.over or self.too_long else None

    def _count(self, cost: Cost) -> None:
        usd = usd_or_none(cost.usd)
        if usd is None or usd <= self._spent:
            return
        self._spent = usd
        grown, waited = usd - self._written, time.monotonic() - self._wrote_at
        if usd <= self._held and grown < GROWS * self._held and waited < WRITE_SECONDS:
            return
        self._write(cost.source)
        self._warn()
        if usd > limits.WARN * self._held:
            self._hold_more()
        if usd > self._held + TINY and self._bounds and self.over is None:
            self.over = self._tightest(0.0)

    def _write(self, source: CostSource) -> None:
        self._written, self._wrote_at = self._spent, time.monotonic()
        tokens = max(self.metered_tokens, self._attempt.tokens, key=lambda each: each.total)
        self._ledger.spend(self._attempt.id, self._spent, source, tokens)

    def _hold_more(self) -> None:
        """Ask for as much again, or for all that is left."""
        for _ in range(2):  # another process may have been quicker
            left = self.left_usd()
            wanted = 0.0 if left is None else min(left, 2 * max(self._spent, self._held))
            if wanted <= self._held:
                return
            if self._ledger.hold_more(self._attempt.id, wanted, self._bounds, time.time()) is None:
                self._held = wanted
                return

    def _warn(self) -> None:
        for bound in self._bounds:
            limit, name = bound.limit, f"{bound.limit.window} {bound.limit.agent} {bound.limit.repo} {bound.run}"
            whole = limit.usd + self._ledger.allowed_overrun(bound)
            spent = self._held_in(bound)[0]
            if name not in self._warned and spent >= limits.WARN * whole:
                self._warned.add(name)
                share = f"{100 * spent / whole:.0f} % of {limits.OF[limit.window]} is used"
                self._note(f"{share}: {amounts.usd(spent)} of {amounts.usd(whole)}")

    def _count_tokens(self, tokens: Tokens) -> None:
        most = self._task.max_tokens
        if most is None:
            return
        used = tokens.total
        if used > most:
            self.too_long = f"the limit of {most} tokens is used up: it has used {used}"
        elif used >= limits.WARN * most and "tokens" not in self._warned:
            self._warned.add("tokens")
            self._note(f"{100 * used / most:.0f} % of its tokens are used: {used} of {most}")

    def _tightest(self, wanted: float) -> Refusal | None:
        """Return the limit that leaves the least."""
        found: list[Refusal] = []
        for bound in self._bounds:
            spent, (_, others) = self._held_in(bound)[0], self._held_in(bound, besides=self._attempt.id)
            limit = structs.replace(bound.limit, usd=bound.limit.usd + self._ledger.allowed_overrun(bound))
            found.append(Refusal(limit, spent, others, wanted))
        return min(found, key=lambda refusal: refusal.remaining_usd, default=None)

    # --- the end

    def cost(self) -> Cost:
        """Return what it cost, by the best that is known, and what stays reserved for the rest."""
        terms = self._terms
        if not self._opened:  # what it did not report, `settle` takes from the ledger
            fixed = self._record.cost_usd
            return self._attempt.cost if fixed is None else Cost(fixed, "fixed")
        if terms.fixed_usd is not None:
            return Cost(terms.fixed_usd, "fixed")
        found = self._known.settled_cost(self._note, whole=self.reported_whole)
        if found.usd is not None:
            # Its own word does not settle requests without a price; a model that runs here has none.
            cut = not self.reported_whole and not terms.metered  # what it spent after its last word, nobody knows
            partly = not terms.local and (cut or not self._known.whole or self.unpriced_requests)
            return structs.replace(found, reserved_usd=self._unknown_part(found.usd)) if partly else found
        if terms.local:
            return Cost(0.0, "fixed")
        if not self._known.tokens.total and not self._attempt.tokens.total and not terms.names_cost:
            usual = Cost() if terms.tells else self._known.prices.usual(self._attempt.agent)
            if self.asked_nobody() and (usual.usd is None or self._record.outcome != "done"):
                return Cost(0.0, "metered")
            if usual.usd is not None:
                return usual
        return Cost(reserved_usd=self._unknown_part(0.0))

    def _unknown_part(self, known: float) -> float:
        return round(limits.unknown_reservation(known, self._held, self._terms.budget), 6)

    def settle(self) -> None:
        """Write down what it cost in the end; what is not known stays reserved."""
        line = self._ledger.line(self._attempt.id)
        if line is None:
            return
        self._held = max(self._held, line.reserved)
        cost = self._clean_cost(self._attempt.cost)
        if cost.usd is None and not cost.reserved_usd:  # it did not come to its own end
            cost = self._cut_short(line)
        counted = cost.source != "fixed" and line.source in ("metered", "reported")
        if counted and cost.usd is not None and line.spent > cost.usd + TINY:  # it was counted before a crash
            cost = structs.replace(cost, usd=line.spent, source=line.source)
        if line.notional and (cost.usd or cost.reserved_usd):
            cost = structs.replace(cost, notional=True)
        self._attempt.cost, self._attempt.tokens = cost, self._attempt.tokens.within_limits
        self._ledger.settle(self._attempt, cost.usd or 0.0, time.time(), cost.reserved_usd)

    def _clean_cost(self, cost: Cost) -> Cost:
        usd = usd_or_none(cost.usd)
        return cost if usd == cost.usd else Cost(usd, "unknown" if usd is None else cost.source, cost.reserved_usd)

    def lost_cost(self) -> Cost:
        """Return what it cost where its process died while its agent worked."""
        line, fixed = self._ledger.line(self._attempt.id), self._record.cost_usd
        if line is None or fixed is not None:
            return self._attempt.cost if fixed is None else Cost(fixed, "fixed")
        reported = self._clean_cost(self._attempt.cost)
        if reported.usd is not None and reported.usd > line.spent:
            line = structs.replace(line, spent=reported.usd, source=reported.source)
        return self._cut_short(line)

    def _cut_short(self, line: PaidAttempt) -> Cost:
        """Return what an attempt cost that was cut short: what was counted; the rest may be spent too."""
        if self._spent > line.spent:
            line = structs.replace(line, spent=self._spent)
        rest = round(line.unknown_usd, 6)
        if line.spent:
            return Cost(line.spent, "metered" if line.source == "unknown" else line.source, rest)
        return Cost(reserved_usd=rest) if rest else Cost(0.0, "metered" if line.reserved else "fixed")

    def question(self) -> Question | None:
        """Return what a user is to be asked, where a limit stopped it."""
        if self.over is None:
            return None
        more = limits.shortfall(self.over, self._still_wanted())
        return limits.budget_question(self._who, self._attempt.id, self.over, more, time.time())

    def _still_wanted(self) -> float:
        """Return what it takes to finish: once more what such an attempt costs, and the run's other open tasks."""
        usual, expected = self._expected
        once = (
            usual
            if expected == "fixed"
            else max(budget_figures.likely_raise_usd(usual, expected), budget_figures.RAISE_MARGIN * self.spent_usd)
        )
        if self.over is None or self.over.limit.window == "node":
            return once
        return once + budget_figures.needed_usd(self._store, self._record.run, besides=self._record.node)
