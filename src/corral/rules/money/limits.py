"""The limits that bind an attempt: may it start or continue, how much to reserve for it, and the words for the user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import cast

from msgspec import Struct, structs

from corral import amounts
from corral.model import Cost, Entry, Question, ToolboxRules
from corral.model.errors import BadRequest
from corral.model.flow import Flow
from corral.model.money import ENOUGH, Bound, Budget, Expected, Limit, Refusal, Window

STOP = "stop"
WARN = 0.8  #: of a limit: reported once
DOUBT = 0.2  #: of a cost: so far apart, two words on it contradict each other
FAR = 10  #: times all other prices, and the assumed one: such a price is not believed alone
DAY = 86400.0
CENT, TINY = 0.01, 1e-6  #: what is offered at least; what adding up may get wrong
OF: dict[Window, str] = {
    "node": "the budget of this task", "run": "the budget of this run", "day": "the budget of the day",
    "month": "the budget of the month", "ceiling": "the ceiling of the month",
    "halt": "everything is halted: what may be spent",
}  # fmt: skip
OF_RUN: tuple[Window, ...] = ("node", "run")  #: one raise lifts them together
LIFTS = {"ceiling": "corral budget set --ceiling USD", "halt": "corral halt --off"}  #: what no answer does
LEAST_SPAWN_USD = 0.01
UNPRICED_HINT = "raise [budget] max_unpriced_requests in config.toml, or give its model a price in prices.toml"


class Spender(Struct, frozen=True, kw_only=True):
    """The attempt that is to spend."""

    run: str
    node: str
    agent: str
    repo: str
    ancestors: tuple[str, ...] = ()


def since(window: Window, now: float, zone: tzinfo) -> float:
    """Return when a window began, by the calendar of a time zone."""
    if window in ("node", "run", "halt"):
        return 0.0
    local = datetime.fromtimestamp(now, zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    first = midnight if window == "day" else midnight.replace(day=1)
    return first.timestamp()


def until(window: Window, now: float, zone: tzinfo) -> float | None:
    """Return when a window is over and a new one begins; None for one that does not end by itself."""
    if window in ("node", "run", "halt"):
        return None
    start = datetime.fromtimestamp(since(window, now, zone), zone)
    if window == "day":
        following = start.date() + timedelta(days=1)
    else:
        following = (start.date() + timedelta(days=32)).replace(day=1)
    return datetime(following.year, following.month, following.day, tzinfo=zone).timestamp()


def bounds(who: Spender, limits: Sequence[Limit], now: float, zone: tzinfo) -> list[Bound]:
    """Return every limit that binds an attempt, where it binds; hard ones first, so that they are the ones named."""
    found: list[Bound] = []
    for limit in limits:
        if limit.agent not in ("", who.agent) or limit.repo not in ("", who.repo):
            continue
        runs = (who.run, *who.ancestors) if limit.window == "run" else (who.run,)
        found += [Bound(limit=limit, run=run, node=who.node, since=since(limit.window, now, zone)) for run in runs]
    return sorted(found, key=lambda bound: bound.limit.window not in ("halt", "ceiling"))


def of_run(flow: Flow) -> float | None:
    """Return the limit of a whole run; None where the limit of its only task says the same."""
    if flow.budget_usd is not None and len(flow.nodes) == 1 and not flow.nodes[0].fans_out:
        own = flow.nodes[0].task.budget_usd
        return None if own is not None and own <= flow.budget_usd else flow.budget_usd
    return flow.budget_usd


def to_reserve(fixed: float | None, paid: Sequence[float], budget: Budget) -> tuple[float, Expected]:
    """Return what an attempt is expected to cost, all of which is reserved, and how well that is known."""
    if fixed is not None:
        return fixed, "fixed"
    paid = _without_outlier(paid, budget)
    if len(paid) >= ENOUGH:
        return quantile(paid, 0.9), "usual"
    return max(budget.unknown_cost_usd, quantile(paid, 1.0)), "assumed"


def _without_outlier(paid: Sequence[float], budget: Budget) -> list[float]:
    """Return what was paid, with a price that is far above all others lowered: one bad number is no price."""
    ordered = sorted(value for value in paid if math.isfinite(value))
    second = ordered[-2] if len(ordered) > 1 else 0.0
    most = FAR * max(second, budget.unknown_cost_usd) or math.inf
    return [min(value, most) for value in ordered]


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that so big a part of all does not exceed."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if part > 0 else ordered[0]


def unknown_reservation(known: float, held: float, budget: Budget) -> float:
    """Return what stays reserved for an attempt of whose cost only a part is known: unknown is never nothing."""
    return max(0.0, (held if held > 0 else budget.unknown_cost_usd) - known)


def settled_cost(reported: Cost, metered: Cost) -> Cost:
    """Return what an attempt cost by its own word and by the meter: the larger, and whether they contradict."""
    if reported.usd is None or metered.usd is None:
        return metered if reported.usd is None else reported
    larger, apart = max(reported.usd, metered.usd), abs(reported.usd - metered.usd)
    if apart <= CENT or apart <= DOUBT * larger:
        return structs.replace(reported, usd=larger)
    return structs.replace(reported if larger == reported.usd else metered, disputed=True)


def words(refusal: Refusal) -> str:
    """Say which limit is in the way, with numbers."""
    reserved = f" and {amounts.usd(refusal.reserved)} is reserved for others" if refusal.reserved > 0 else ""
    wanted = f"; {amounts.usd(refusal.wanted)} more would be too much" if refusal.wanted else ""
    return f"{limit_words(refusal.limit)}: {amounts.usd(refusal.spent)} is spent{reserved}{wanted}"


def limit_words(limit: Limit) -> str:
    """Say what a limit is."""
    of = "".join([f" of {limit.agent}" if limit.agent else "", f" in {limit.repo}" if limit.repo else ""])
    return f"{OF[limit.window]}{of} is {amounts.usd(limit.usd)}"


def shortfall(refusal: Refusal, wanted: float) -> float:
    """Return how much more, in whole cents, lets a run finish that a limit stopped: also where more is spent by now."""
    more = max(refusal.wanted, wanted, CENT)
    return math.ceil(100 * max(more, refusal.spent + refusal.reserved + more - refusal.limit.usd) - 100 * TINY) / 100


def budget_question(who: Spender, attempt: str, refusal: Refusal, more: float, now: float) -> Question:
    """Ask whether a run that was stopped by a limit may continue."""
    limit = refusal.limit
    choices = (f"raise {more:.2f}", STOP)
    if limit.window in ("ceiling", "halt"):
        choices, then = (STOP,), f"nothing but `{LIFTS[limit.window]}` lifts it: then `corral resume {who.run}`"
    else:
        then = f"raise: {amounts.usd(more)} more for this run, or type another amount; then `corral resume {who.run}`"
    return Question(
        key=f"{who.run}/budget/{'run' if limit.window in OF_RUN else limit.window}",
        run=who.run,
        node=who.node,
        attempt=attempt,
        kind="approval",
        about="budget",
        text=f"{words(refusal)}. Continue?",
        context=f"its work is saved; {then}; stop, or nobody answers: the run stays over",
        choices=choices,
        default=STOP,
        deadline=now + 7 * DAY,
    )


def offers_more(entry: Entry) -> bool:
    """Tell whether an answer can let a run continue; no answer lifts a ceiling or a halt."""
    return len(entry.choices) > 1


def offered_usd(question: Question) -> float:
    """Return the raise that a question about a limit offers; 0 where it offers none."""
    return amount(question.choices[0], 0.0) or 0.0


def granted_raise(entry: Entry) -> tuple[float, tuple[Window, ...]]:
    """Return how much more an answer allows a run, and for which limits: those of a run and of its nodes are one."""
    window = entry.key.split("/")[2]
    windows = OF_RUN if window in OF_RUN else (cast("Window", window),)
    return amount(entry.answer or "", offered_usd(entry)) or 0.0, windows


def hint(entry: Entry) -> str:
    """Say what to type so that a run continues that a limit stopped."""
    if offers_more(entry):
        return f"corral answer {entry.id} {entry.choices[0]}"
    return LIFTS["halt" if "/budget/halt" in entry.key else "ceiling"]


def amount(answer: str, more: float) -> float | None:
    """Read an answer to that: how much more; 0 for no, None for words that are neither."""
    said = answer.strip().lower()
    if said in ("y", "yes", "raise"):
        return more
    if said in ("n", "no", STOP):
        return 0.0
    said = said.removeprefix("raise").removeprefix(" by").strip().removeprefix("$").removesuffix("usd").strip()
    try:
        usd = float(said)
    except ValueError:
        return None
    return usd if math.isfinite(usd) and usd > 0 else None


class SpawnStatus(Struct, frozen=True, kw_only=True):
    """An attempt that asks for a child."""

    depth: int  #: of its run: 0 for one that a user started
    family: int  #: runs below the one at the top, so far
    left_usd: float | None  #: of its budget; None: it has none


def spawn_pair(rules: ToolboxRules, giver: str, taker: str) -> None:
    """Refuse a role that this one may not hand work to; without a table every one may."""
    if not rules.delegate or not taker:
        return
    allowed = rules.delegate.get(giver, rules.delegate.get("*", ()))
    if taker not in allowed and "*" not in allowed:
        hint = f"it may hand work to: {', '.join(allowed)}" if allowed else "it may hand work to nobody"
        raise BadRequest(f"the role `{giver or 'none'}` may not hand work to `{taker[:80]}`", hint=hint)


def spawn_budget(rules: ToolboxRules, status: SpawnStatus, asked_usd: float) -> float | None:
    """Return what a child is promised: what was asked for; None: it shares what the attempt has left."""
    if not rules.children:
        raise BadRequest("children are not allowed here", hint="[toolbox] children = 0 says so")
    if status.depth >= rules.depth:
        raise BadRequest(
            f"this run is {status.depth} deep already; {rules.depth} is the most", hint="do the task yourself"
        )
    if status.family >= rules.children:
        raise BadRequest(
            f"{status.family} children were spawned already; {rules.children} are the most", hint="do the task yourself"
        )
    left = status.left_usd
    if left is not None and left < LEAST_SPAWN_USD:
        raise BadRequest("there is no money left for a child", hint="do the task yourself, or ask_user for more")
    if left is not None and asked_usd > left:
        raise BadRequest(
            f"a child for {amounts.usd(asked_usd)}: only {amounts.usd(left)} are left",
            hint="ask for less, or do the task yourself",
        )
    return asked_usd or None
