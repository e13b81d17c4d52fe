"""Whether an attempt may start and continue: on which account, with which money; and what else there is if not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from corral import amounts
from corral.attempt.budget_figures import Terms, is_notional
from corral.attempt.events import AttemptEvents
from corral.machines import resolved_agent, scope
from corral.machines.host import Host
from corral.machines.network import REGISTRIES, is_metered
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import AttemptRecord, Failure
from corral.model.errors import CorralError
from corral.model.events import Noted
from corral.model.flow import AgentChoice, Node, known_as
from corral.model.money import Budget, Refusal
from corral.rules.checks.verdict import Verdict
from corral.rules.money import limits
from corral.rules.money.quota import back_at, header_windows
from corral.store.interface import Store

AgentResolver = Callable[[str, str | None], ResolvedAgent]


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


TOO_MANY, ERRORS = 429, 400


LEARN_SECONDS = 5.0  #: windows are written down no more often


class AccountRateLimit:
    """Lets requests of one account through: as many a minute as settings allow, from all runs together."""

    def __init__(self, store: Store, account: str, most: int | None, note: Callable[[str], None]) -> None:
        self._store, self._account, self._most, self._note = store, account, most, note
        self._wait_noted = False
        self._learned_at = 0.0
        self.back_at: float | None = None  #: when it may be asked again, as the last answer said that refused it

    async def enter(self) -> None:
        """Wait until the last minute has room for one more request."""
        while self._most is not None and (wait := self._store.accounts.ask(self._account, self._most, time.time())):
            if not self._wait_noted:
                self._wait_noted = True
                self._note(f"{self._account} may be asked {self._most} times a minute: it waits {wait:.0f} s")
            await asyncio.sleep(wait)

    def learn(self, status: int, fields: Sequence[tuple[str, str]]) -> None:
        """Learn the limits of the account from an answer."""
        now = time.time()
        if status == TOO_MANY:
            self.back_at = back_at(fields, now)
        elif status < ERRORS:
            self.back_at = None
        if now - self._learned_at < LEARN_SECONDS and status != TOO_MANY:  # what refuses says the most
            return
        if found := header_windows(self._account, fields, now):
            self._learned_at = now
            self._store.accounts.see(found)


LOOK_SECONDS = 0.1  #: while it waits for others of its run


LOOK_FAR_SECONDS = 0.4  #: while it waits for attempts of any run


MOST_NAMED = 3  #: attempts that it waits for


class Admission:
    """The quota and the money of one attempt: asked for before it starts, and when it was ended for lack of them."""

    def __init__(self, attempt_events: AttemptEvents, node: Node, resolve: AgentResolver, host: Host) -> None:
        self.events, self.node, self.host, self._resolver = attempt_events, node, host, resolve
        self.record, self.attempt = attempt_events.record, attempt_events.attempt
        self.rate_limit: AccountRateLimit | None = None
        self._others: tuple[str, ...] = ()  # accounts that may be used instead of its own

    async def resolve_agent(self) -> ResolvedAgent:
        """Make its agent ready: on its account, or on another where that one is limited and settings say so."""
        dressed = self._resolver(self.attempt.agent, self.attempt.account)
        if self.attempt.machine is None:  # elsewhere it is taken for the usual one
            dressed = await resolved_agent.resolve_variant(dressed, self.host.state)
        self.events.has_account = bool(dressed.agent.facts.keys or dressed.agent.facts.login)
        self.attempt.account = dressed.account
        most, name = dressed.profile.requests_per_minute, self.attempt.known_as
        rate_limit = self.rate_limit = AccountRateLimit(self.events.store, name, most, self._say)
        self.events.back_at = lambda: rate_limit.back_at
        self._others = () if self.record.chosen else dressed.others
        cooling = self.events.cooldown() if self._others else None
        other = free(self.events.store, self.record, self._others, time.time()) if cooling else None
        if cooling and other:
            self.events.emit(Noted(f"its account `{dressed.account}` is limited: {cooling[1]}; `{other}` is used"))
            self.attempt.account = other
            return await self.resolve_agent()
        return dressed

    async def may_start(self, dressed: ResolvedAgent) -> bool:
        """Look whether its agent has quota and there is money for it; hold that money."""
        terms = self._terms(dressed)
        self.record.cost_usd = 0.0 if self.node.kind == "run" or self._is_free(dressed) else dressed.profile.cost_usd
        if cooling := self.events.cooldown():  # another run found that out: asking again would only cost tries
            until = soonest(self.events.store, self.attempt.agent, self._others, time.time())
            self._park(min(until or cooling[0], cooling[0]), cooling[1])
            return False
        refusal = await self._reserve(terms)
        if refusal is None:
            return True
        if self.host.stop.is_set():
            self.record.outcome = "stopped"
            self.events.step("collected")
            return False
        error = self._find_cheaper(refusal) if dressed.budget.cheaper else None
        self.record.outcome, self.attempt.error = "over_budget", error or self.out_of_money()
        self.events.emit(Noted(f"not started: {self.attempt.error.message}"))
        self.events.step("collected")
        return False

    def elsewhere(self, verdict: Verdict, error: Failure) -> Verdict:
        """Look for another account to continue where its own is limited; else wait for the first that is back."""
        store, now = self.events.store, time.time()
        if (other := free(store, self.record, self._others, now)) is None:
            names = (*self._others, self.attempt.account or "")
            if self._others and (until := soonest(store, self.attempt.agent, names, now)):
                self.record.until = until
            return verdict
        self.record.elsewhere = other
        words = f"account `{self.attempt.account}` is limited: {error.message}; continuing on `{other}`"
        return Verdict(verdict.status, structs.replace(error, message=words))

    def out_of_money(self) -> Failure:
        """Say which limit stopped it, and ask a user whether it may continue."""
        attempt_budget = self.events.budget
        question = attempt_budget.question()
        if question:
            entry = self.events.run_questions().ask_for_money(question)
            return Failure(
                "budget", limits.words(attempt_budget.over) if attempt_budget.over else "", limits.hint(entry)
            )
        if attempt_budget.count.reason:
            return Failure("budget", attempt_budget.count.reason, limits.UNPRICED_HINT)
        return Failure("budget", attempt_budget.too_long or "its own limit of money is used up")

    # --- parts

    def _park(self, until: float, reason: str) -> None:
        """End an attempt before it starts: its agent's quota is known to be used up."""
        self.record.until, self.record.outcome = until, "limited"
        self.attempt.error = Failure(
            "rate_limit", f"{self.attempt.known_as} is limited, as another run found out: {reason}"
        )
        self.events.emit(Noted(f"not started: {self.attempt.error.message}"))
        self.events.step("collected")

    def _find_cheaper(self, refusal: Refusal) -> Failure | None:
        """Look for an agent that may step in and that fits what is left; say why it does."""
        tried = {each.attempt.agent for each in self.events.store.attempts(self.record.run)
                 if (each.node, each.lane) == (self.record.node, self.record.lane)}  # fmt: skip
        choices = [choice for choice in self.node.fallback if choice.name not in tried]
        kind = self.node.task.type
        found = cheapest_fallback(self.events.store, self._resolver, choices, kind, refusal.remaining_usd)
        if found is None:
            return None
        self.record.cheaper = found[0]
        words = f"{limits.words(refusal)}: {found[0]} continues, at about {amounts.usd(found[1])}"
        return Failure("budget", words)

    def _terms(self, dressed: ResolvedAgent) -> Terms:
        plan = self.host.plan
        facts, profile = dressed.agent.facts, dressed.profile
        plain = bool(profile.command) and profile.output not in ("claude", "acp")
        return Terms(
            budget=dressed.budget,
            fixed_usd=dressed.profile.cost_usd,
            local=facts.local or self.node.kind == "run" or self._is_free(dressed),
            tells=facts.reports_cost or facts.reports_tokens,
            names_cost=bool(dressed.profile.cost),
            metered=is_metered(dressed),
            reports=bool(profile.cost or profile.tokens) if plain else facts.reports_cost or facts.reports_tokens,
            notional=is_notional(dressed),
            flow_usd=limits.of_run(plan.flow),
            go_on=plan.go_on,
        )

    async def _reserve(self, terms: Terms) -> Refusal | None:
        """Reserve what it is expected to cost; wait where other attempts of its run may give back enough."""
        attempt_budget, stop = self.events.budget, self.host.stop
        refusal = await attempt_budget.open(terms, self.host.plan.repo)
        waited = refusal is not None and refusal.waits
        if refusal and waited:
            self._waits(_waiting(refusal))
        look = LOOK_FAR_SECONDS if refusal and refusal.behind else LOOK_SECONDS
        while refusal and refusal.waits and not stop.is_set():
            while not (stop.is_set() or attempt_budget.has_room()):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(look):
                        await stop.wait()
            if not stop.is_set():
                refusal = attempt_budget.reserve()
        if waited:
            self.record.started = time.time()
            self._waits("")
        return refusal

    def _waits(self, why: str) -> None:
        """Store why it has not started yet, so that its run shows it; empty: it waits no more."""
        if why:
            self._say(why)
        self.record.waits = why
        self.events.step(self.record.phase)

    def _is_free(self, dressed: ResolvedAgent) -> bool:
        """Tell whether its agent is a plain program that reaches no host and reports no cost: it costs nothing."""
        profile, plan = dressed.profile, self.host.plan
        if not profile.command or profile.output in ("claude", "acp") or profile.cost_usd is not None:
            return False
        if (
            profile.hosts
            or profile.cost
            or profile.tokens
            or any(each.startswith("http") for each in dressed.env.values())
        ):
            return False
        net = scope.of_agent(plan.scopes, self.attempt.agent, plan.ignore).scope.net
        return net != "on" and (net == "off" or {*net} <= {REGISTRIES})

    def _say(self, text: str) -> None:
        self.events.emit(Noted(text))


def _waiting(refusal: Refusal) -> str:
    """Say what an attempt waits for before it starts."""
    unknown = f"nobody knows its price, and {limits.limit_words(refusal.limit)}"
    why = unknown if refusal.guessed else limits.words(refusal)
    if not refusal.behind:
        return f"waits until other attempts of this run are over: {why}"
    more = len(refusal.behind) - MOST_NAMED
    names = ", ".join(refusal.behind[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"waits until {names} {'is' if len(refusal.behind) == 1 else 'are'} over: {why}"


def cheapest_fallback(
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
