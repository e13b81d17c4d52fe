"""The money of one attempt: held before it starts, counted while it works, settled at its end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from datetime import UTC

from msgspec import Struct, structs

from corral.config.money import price_list
from corral.engine.paying.request_count import MOST_UNPRICED, RequestCount
from corral.flow import Task
from corral.model import AttemptRecord, Cost, Question, Tokens
from corral.money import Bound, Budget, Limit, Line, PriceList, Refusal
from corral.rules import budget, prices
from corral.rules.budget import Who
from corral.world import custody
from corral.world.clock import zone
from corral.world.store.ledger import TINY, Ledger
from corral.world.store.sqlite import Store

GROWS = 0.02  #: of what is held: smaller steps are not written down each
WRITE_SECONDS = 1.0
CENTS = 20.0  #: so many times its tokens' price, a reported cost is doubted


class Terms(Struct, frozen=True, kw_only=True):
    """On what terms an attempt works: what the person's settings, its agent and its run say."""

    budget: Budget
    fixed_usd: float | None = None
    local: bool = False  #: its models run here: they cost nothing
    tells: bool = True  #: it tells tokens or money; else it is estimated
    flow_usd: float | None = None  #: of the whole run
    sharers: int = 1  #: attempts that may want to spend of the same limit at once
    go_on: bool = False  #: past limits of days and months, up to the ceiling: a person said so beforehand


class Purse:
    """Holds, counts and settles; `over` says why it is to stop."""

    def __init__(self, record: AttemptRecord, store: Store, task: Task, note: Callable[[str], None]) -> None:
        self._record, self._attempt, self._task, self._note = record, record.attempt, task, note
        self._ledger = Ledger(store, custody.alive)
        self._store = store
        self._terms = Terms(budget=Budget())
        self._bounds: list[Bound] = []
        self._who = Who(run=record.run, node=record.node, agent=record.attempt.agent, repo="")
        self._prices = prices.Prices(PriceList(), time.time())
        self._answers: dict[int, tuple[str | None, Tokens]] = {}  # what was metered of each answer of a model
        self._priced: dict[int, float] = {}
        self._held = self._spent = self._written = 0.0
        self._wrote_at = 0.0
        self._warned: set[str] = set()
        self.below_usd: Callable[[], float] = lambda: 0.0  #: what runs that it spawned have cost or were promised
        self.count = RequestCount()  #: of its requests to its provider
        self.count.is_priced, self.count.refusal = self._is_priced, self._refusal
        self.over: Refusal | None = None
        self.too_long: str | None = None  #: why it is to stop, where it is tokens that are used up

    # --- before the start

    async def open(self, terms: Terms, repo: str) -> Refusal | None:
        """Hold money for the attempt; return the limit that has no room for it."""
        now, attempt = time.time(), self._attempt
        self._terms = terms
        self._prices = prices.Prices(price_list(), now)
        self._who = structs.replace(self._who, repo=repo, ancestors=tuple(self._ledger.ancestors(self._record.run)))
        limits = self._limits()
        self._bounds = budget.bounds(self._who, limits, now, zone(terms.budget.zone) or UTC)
        self.count.most = self._most_unpriced()
        if self.count.most is not None:
            await asyncio.to_thread(prices.load)  # later it would hold up all that is heard
        paid = self._ledger.paid_before(attempt.agent, attempt.model, self._task.type)
        fixed = 0.0 if terms.local else terms.fixed_usd
        wanted = budget.to_hold(self._cap(), fixed, paid, terms.budget)
        line = Line(
            attempt=attempt.id,
            run=self._record.run,
            node=self._record.node,
            agent=attempt.agent,
            account=attempt.account,
            model=attempt.model,
            role=attempt.role,
            type=self._task.type,
            repo=repo,
            owner=custody.me(),
            reserved=wanted,
            at=now,
        )
        left = self.left()
        if fixed is None and left is not None and left <= TINY:
            self.over = self._tightest(budget.to_hold(None, None, paid, terms.budget))
        else:
            self.over = self._ledger.reserve(line, self._bounds)
        self._held = wanted
        return self.over

    def _cap(self) -> float | None:
        """Return the most that is held at first: a share of what its run may spend, no more than a whole limit."""
        found: list[float] = []
        for bound in self._bounds:
            whole = bound.limit.usd + self._ledger.allowed(bound)
            if bound.limit.window in ("node", "run"):
                spent, reserved = self._held_in(bound, besides=self._attempt.id)
                whole = max(0.0, whole - spent - reserved) / self._terms.sharers
            found.append(whole)
        return min(found, default=None)

    def _limits(self) -> list[Limit]:
        """Gather who limits it: its task, its flow, settings, and what was set by hand."""
        terms, found = self._terms, list[Limit]()
        if self._task.budget_usd is not None:
            found.append(Limit(window="node", usd=self._task.budget_usd, where="the task"))
        if terms.flow_usd is not None:
            found.append(Limit(window="run", usd=terms.flow_usd, where="the flow"))
        shared = [*terms.budget.limits, *self._ledger.limits()]
        return found + [limit for limit in shared if not terms.go_on or limit.window in ("ceiling", "halt")]

    def left(self) -> float | None:
        """Return what it may spend at most, by every limit, itself left out; None where nothing limits it."""
        found: list[float] = []
        for bound in self._bounds:
            spent, reserved = self._held_in(bound, besides=self._attempt.id)
            found.append(bound.limit.usd + self._ledger.allowed(bound) - spent - reserved)
        return max(0.0, min(found)) if found else None

    def _held_in(self, bound: Bound, besides: str = "") -> tuple[float, float]:
        """Return what is spent and held within a bound; what it spawned counts for its own task too."""
        spent, reserved = self._ledger.held(bound, besides)
        return (spent + self.below_usd(), reserved) if bound.limit.window == "node" else (spent, reserved)

    @property
    def spent(self) -> float:
        """Return what it has spent so far, as far as that is known."""
        return max(self._spent, self._attempt.cost.usd or 0.0, self._terms.fixed_usd or 0.0)

    # --- while it works

    def meter(self, model: str | None, tokens: Tokens, answer: int) -> None:
        """Count what passed between the agent and its provider."""
        _, before = self._answers.get(answer, (None, Tokens()))
        self._answers[answer] = (model, before + tokens)
        if self._bounds and self._terms.fixed_usd is None:
            self._price(answer)
            self._count(sum(self._priced.values()), "computed")
        self._count_tokens(self.metered)

    @property
    def metered(self) -> Tokens:
        return sum((tokens for _, tokens in self._answers.values()), Tokens())

    def reported(self, usd: float, tokens: Tokens) -> None:
        """Count what the agent itself says it spent."""
        if self._terms.fixed_usd is None:
            self._count(usd, "reported")
        self._count_tokens(tokens)

    def told_tokens(self, tokens: Tokens) -> None:
        """Count what an agent says that knows no prices."""
        if self._bounds and self._attempt.cost.usd is None and self._terms.fixed_usd is None:
            cost = self._prices.cost(self._attempt.model, tokens, local=self._terms.local)
            if cost.usd is not None:
                self._count(cost.usd, "computed")
        self._count_tokens(tokens)

    def _price(self, answer: int) -> None:
        model, tokens = self._answers[answer]
        cost = self._prices.cost(model or self._attempt.model, tokens, local=self._terms.local)
        if cost.usd is not None:
            self._priced[answer] = cost.usd

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
        return terms.budget.max_unpriced_requests or (MOST_UNPRICED if self._bounds else None)

    def _is_priced(self, answer: int) -> bool:
        """Return whether the price of an answer is known; where nothing is limited, nobody asks before the end."""
        if self.count.most is None or answer not in self._answers:
            return True
        if answer not in self._priced:
            self._price(answer)
        return answer in self._priced

    def _refusal(self) -> str | None:
        return "its budget is used up" if self.over or self.too_long else None

    def _count(self, usd: float, source: str) -> None:
        if not math.isfinite(usd) or usd <= self._spent:
            return
        self._spent = usd
        grown, now = usd - self._written, time.monotonic()
        if usd <= self._held and grown < GROWS * self._held and now - self._wrote_at < WRITE_SECONDS:
            return
        self._written, self._wrote_at = usd, now
        self._ledger.spend(self._attempt.id, usd, "reported" if source == "reported" else "computed")
        self._warn()
        if usd > budget.WARN * self._held:
            self._hold_more()
        if usd > self._held + TINY and self._bounds and self.over is None:
            self.over = self._tightest(0.0)

    def _hold_more(self) -> None:
        """Ask for as much again, or for all that is left."""
        for _ in range(2):  # another process may have been quicker
            left = self.left()
            wanted = 0.0 if left is None else min(left, 2 * max(self._spent, self._held))
            if wanted <= self._held:
                return
            if self._ledger.hold_more(self._attempt.id, wanted, self._bounds, time.time()) is None:
                self._held = wanted
                return

    def _warn(self) -> None:
        for bound in self._bounds:
            limit, name = bound.limit, f"{bound.limit.window} {bound.limit.agent} {bound.limit.repo} {bound.run}"
            whole = limit.usd + self._ledger.allowed(bound)
            spent = self._held_in(bound)[0]
            if name not in self._warned and spent >= budget.WARN * whole:
                self._warned.add(name)
                self._note(
                    f"{100 * spent / whole:.0f} % of {budget.OF[limit.window]} is used: ${spent:.2f} of ${whole:g}"
                )

    def _count_tokens(self, tokens: Tokens) -> None:
        most = self._task.max_tokens
        if most is None:
            return
        used = tokens.total
        if used > most:
            self.too_long = f"the limit of {most} tokens is used up: it has used {used}"
        elif used >= budget.WARN * most and "tokens" not in self._warned:
            self._warned.add("tokens")
            self._note(f"{100 * used / most:.0f} % of its tokens are used: {used} of {most}")

    def _tightest(self, wanted: float) -> Refusal | None:
        """Return the limit that leaves the least."""
        found: list[Refusal] = []
        for bound in self._bounds:
            spent, (_, others) = self._held_in(bound)[0], self._held_in(bound, besides=self._attempt.id)
            limit = structs.replace(bound.limit, usd=bound.limit.usd + self._ledger.allowed(bound))
            found.append(Refusal(limit, spent, others, wanted))
        return min(found, key=lambda refusal: refusal.left, default=None)

    # --- the end

    def cost(self) -> Cost:
        """Return what it cost, by the best that is known."""
        attempt, terms = self._attempt, self._terms
        if terms.fixed_usd is not None:
            return Cost(terms.fixed_usd, "fixed")
        computed = self._computed()
        if attempt.cost.usd is not None:
            if computed.usd and attempt.cost.usd > CENTS * computed.usd and computed.usd > 0.001:
                self._note(f"it reports ${attempt.cost.usd:.2f}, but its tokens cost about ${computed.usd:.2f}: cents?")
            return attempt.cost
        if computed.usd is None and not terms.tells and attempt.tokens == Tokens():
            return self._prices.usual(attempt.agent)
        return computed

    def _computed(self) -> Cost:
        attempt, local = self._attempt, self._terms.local
        if not self._answers:
            return (
                self._prices.cost(attempt.model, attempt.tokens, local=local) if attempt.tokens != Tokens() else Cost()
            )
        for answer in self._answers:
            if answer not in self._priced:
                self._price(answer)
        whole = len(self._priced) == len(self._answers) and not self.unpriced_requests
        return Cost(round(sum(self._priced.values()), 9), "computed") if whole else Cost()

    def settle(self) -> None:
        """Write down what it cost in the end; what is not known is charged at what was held."""
        line = self._ledger.line(self._attempt.id)
        if line is not None:
            known = max(line.spent, self._spent) if self._attempt.cost.usd is None else 0.0
            held = max(self._held, line.reserved, known)
            self._ledger.settle(self._attempt, budget.charge(self._attempt.cost, held, self._terms.budget), time.time())

    def question(self) -> Question | None:
        """Return what a person is to be asked, where a limit stopped it."""
        if self.over is None:
            return None
        soft = self.over.limit.window in ("node", "run")
        more = self.over.limit.usd if soft else budget.lacking(self.over, self._held)
        return budget.ask(self._who, self._attempt.id, self.over, more, time.time())
