"""The cost of one attempt as far as it is known: reported, metered, or notional for agents on a subscription."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from corral.model import Attempt, Cost, Run, Tokens
from corral.model.flow import known_as
from corral.model.money import PriceList, QuotaWindow, dollars
from corral.rules.money import limits
from corral.rules.money.costs import Prices
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.machines.resolved_agent import ResolvedAgent

CENTS = 20.0  #: so many times its tokens' price, a reported cost may be in cents


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
        found = limits.settled_cost(reported, metered)
        if found.disputed is True and not whole and found.source == "metered":
            return structs.replace(found, disputed=UNSET)
        if found.disputed is True:
            note(f"it reports ${reported.usd:.2f}, but ${metered.usd:.2f} was metered: the larger counts")
        return found

    def _by_its_word(self, reported: Cost, note: Callable[[str], None]) -> Cost:
        computed = self.computed_cost(self._attempt.tokens)
        if reported.usd is None:
            return Cost() if computed.usd is None else Cost(dollars(computed.usd), computed.source)
        if computed.usd and reported.usd > CENTS * computed.usd and computed.usd > 0.001:
            note(f"it reports ${reported.usd:.2f}, but its tokens cost about ${computed.usd:.2f}: cents?")
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
    """Return how the present windows of some accounts stand, where a provider or an agent reported it."""
    now, known = time.time(), [each for each in store.accounts.seen() if each.agent in names and each.used is not None]
    return [each for each in known if each.resets is None or each.resets > now]
