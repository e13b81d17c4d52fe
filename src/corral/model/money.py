"""What money is about: prices, limits, what is reserved and spent. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from corral.model import CostSource


def dollars(amount: float) -> float:
    """Return an amount as it is shown: sums of fractions carry noise behind the sixth place."""
    return round(amount, 6)


class Tier(Struct, frozen=True, kw_only=True):
    """What holds instead for a question with more than so many tokens of input."""

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Price(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens; what is cached costs as input unless said."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[Tier, ...] = ()


class Range(Struct, frozen=True, kw_only=True):
    """What one attempt of an agent costs about, where it tells neither money nor tokens."""

    low: float
    high: float


class PriceFile(Struct, frozen=True, kw_only=True):
    """A file of prices."""

    dated: str = ""
    models: Mapping[str, Price] = field(default_factory=dict[str, Price])
    attempts: Mapping[str, Range] = field(default_factory=dict[str, Range])


class PriceList(Struct, frozen=True, kw_only=True):
    """All prices that are not the library's: the user's come before it, those we ship after it."""

    own: PriceFile = PriceFile()
    shipped: PriceFile = PriceFile()


By = Literal["agent", "account", "model", "day", "repo", "task-kind"]  #: what costs are added up by
OverBudget = Literal["warn", "refuse"]
Window = Literal["node", "run", "day", "month", "ceiling", "halt"]


class Limit(Struct, frozen=True, kw_only=True):
    """At most so much in a window: of everything, of one agent, or of one repository."""

    window: Window
    usd: float
    agent: str = ""  #: empty: of all agents
    repo: str = ""  #: empty: of all repositories
    where: str = ""  #: who says so: a file and line, an option, or the name of a user


class BudgetTable(Struct, frozen=True, kw_only=True):
    """`[budget]` of a settings file."""

    #: at most so much for each run, and what it spawns
    per_run_usd: float | None = None
    #: at most so much a day, of all runs together
    per_day_usd: float | None = None
    #: at most so much a month
    per_month_usd: float | None = None
    #: of a month: neither `--yes` nor an answer goes past it; your own file only
    ceiling_usd: float | None = None  #: of a month; neither --yes nor an answer goes past it
    #: what an attempt is charged whose cost nobody knows; not set: 1.0; your own file only
    unknown_cost_usd: float | None = None
    #: an attempt is stopped after so many requests that the meter cannot price; not set: 50 as soon as any limit in
    #: dollars is set, else no limit; your own file only
    max_unpriced_requests: int | None = None
    #: the time zone of days and months, e.g. `Europe/Berlin`; not set: this machine's; your own file only
    zone: str | None = None  #: of days and months; this machine's unless said
    #: too little is left for an agent: the cheapest of its `fallback` that fits continues; your file only
    cheaper: bool = False
    #: an MCP client that cannot ask its user: `refuse`, or `warn` and continue up to the ceiling
    mcp_over_budget: OverBudget | None = None


class Budget(Struct, frozen=True, kw_only=True):
    """What holds for this user in this repository."""

    limits: tuple[Limit, ...] = ()
    unknown_cost_usd: float = 1.0  #: what is reserved for an attempt of unknown cost
    max_unpriced_requests: int | None = None  #: of one attempt; None: 50 where any limit in dollars is set
    zone: str = ""
    cheaper: bool = False  #: where too little is left for an agent, the cheapest of its fallback that fits continues
    mcp_over_budget: OverBudget | None = None  #: if an MCP client cannot ask; unsaid: by the ceiling


class Bound(Struct, frozen=True, kw_only=True):
    """A limit where it applies: to which run and node, and since when."""

    limit: Limit
    run: str = ""
    node: str = ""
    since: float = 0.0
    spender: str = ""  #: a run that an attempt of `run` or of a run below it started, and that shares this limit
    waiting: tuple[str, ...] = ()  #: attempts above it whose reservations do not count for it: they wait for it


class LedgerLine(Struct, frozen=True, kw_only=True):
    """Money reserved for one attempt."""

    attempt: str
    run: str
    node: str
    agent: str
    repo: str
    owner: str
    reserved: float
    at: float
    least: float = 0.0  #: that attempts like it cost here
    guessed: bool = False  #: its price is only assumed, and no meter stops it: such attempts work one after another
    reports: bool = True  #: what it cost can be known at its end; else nothing is learned by waiting for others
    notional: bool = False  #: its agent is logged in with a subscription
    patient: bool = False  #: it waits for others like it already: they may hold more by now, and give it back
    account: str | None = None
    model: str | None = None
    role: str | None = None
    type: str | None = None


class PaidAttempt(Struct, frozen=True, kw_only=True):
    """One attempt as the ledger keeps it."""

    attempt: str
    run: str
    node: str
    agent: str
    account: str | None
    model: str | None
    role: str | None
    type: str | None
    repo: str
    reserved: float
    spent: float
    source: CostSource
    at: float
    settled: float | None
    status: str
    seconds: float
    input: int
    output: int
    cache_read: int
    cache_write: int
    notional: bool = False  #: its agent was logged in with a subscription
    uncounted: float | None = (
        None  #: what it may have spent beyond `spent`, if its process died; None: all of `reserved`
    )

    @property
    def unknown_usd(self) -> float:
        """Return what stays reserved if its process died."""
        held = self.reserved if self.uncounted is None else min(self.reserved, self.spent + self.uncounted)
        return max(0.0, held - self.spent)

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class Totals(Struct, frozen=True, kw_only=True):
    """What all attempts of one agent and model that ended alike came to."""

    agent: str
    model: str
    status: str
    attempts: int
    spent: float
    reserved: float
    input: int
    output: int
    cache_read: int
    cache_write: int


Expected = Literal["fixed", "usual", "assumed"]  #: how well the price of an attempt is known before it starts
TINY = 1e-9  #: of a dollar: what adding up may get wrong
ENOUGH = 3  #: attempts of which the usual cost is known
SAFETY = 2.0  #: times the dearest attempt so far: what one of an assumed price may cost


class LimitBalance(Struct, frozen=True, kw_only=True):
    """The state of a limit for one attempt that is about to start."""

    limit: Limit  #: with what the run may go past it
    spent: float
    reserved: float  #: for all others: at work, or of unknown cost
    at_work: float = 0.0  #: of `reserved`: what others of the same run may give back when they end
    others: int = 0  #: how many of those are at work

    @property
    def remaining_usd(self) -> float:
        return self.limit.usd - self.spent - self.reserved

    def grant(self, usd: float, expected: Expected, least: float = 0.0) -> float | None:
        """Return how much of an expected price can be reserved; None: the attempt may not start.

        An attempt takes less than its expected price only where it is alone in its run: as its price is a mere
        assumption or more than the whole limit, and attempts like it have cost as little as is left (`least`), or
        none ever less than the limit. It is stopped when that is spent.
        """
        whole, left = self.limit.usd, self.remaining_usd
        if self.limit.window == "halt" or (expected != "fixed" and left <= TINY):
            return None
        if usd <= left + TINY:
            return usd
        if expected == "fixed":
            return None
        if self.limit.window in ("node", "run"):
            may_do = (expected == "assumed" or usd > whole) and not left < least <= whole
            return left if may_do and not self.others else None
        return whole if usd > whole and left >= whole - TINY else None

    def may_wait(self, usd: float, expected: Expected, least: float = 0.0) -> bool:
        """Tell whether others at work may give back enough when they end."""
        if not self.others:
            return False
        freed = LimitBalance(limit=self.limit, spent=self.spent, reserved=max(0.0, self.reserved - self.at_work))
        return freed.grant(usd, expected, least) is not None


class GuessedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt at work whose price is assumed and which no meter counts."""

    attempt: str
    usd: float  #: what counts for it now: spent and reserved
    unspent: float  #: of that: what it may give back when it ends
    dearest: float | None  #: attempt of its agent and model so far; None: too few are known


def fit_side_by_side(left: float, dearest: float | None, others: Sequence[GuessedAttempt]) -> bool:
    """Return whether attempts of an assumed price may work at once: each may cost `SAFETY` times the dearest one."""
    if not others:
        return True
    if dearest is None or any(each.dearest is None for each in others):
        return False
    more = sum(max(0.0, SAFETY * (each.dearest or 0.0) - each.usd) for each in others)
    return SAFETY * dearest + more <= left + TINY


class Refusal(Struct, frozen=True):
    """Why something may not be spent: the limit that prevents it, and its state."""

    limit: Limit
    spent: float
    reserved: float
    wanted: float
    waits: bool = False  #: attempts at work may give back enough when they end
    guessed: bool = False  #: it waits as nobody knows its price; there may be room
    behind: tuple[str, ...] = ()  #: attempts of any run that it waits for

    @property
    def remaining_usd(self) -> float:
        return max(0.0, self.limit.usd - self.spent - self.reserved)


class QuotaWindow(Struct, frozen=True, kw_only=True):
    """A window of an account, as its provider reported it last."""

    agent: str  #: AGENT or AGENT@ACCOUNT
    name: str
    used: float | None
    resets: float | None
    at: float


class Quota(Struct, frozen=True, kw_only=True):
    """The limits of an agent's account, as the agent and its provider reported them last."""

    agent: str
    at: float  #: when it was reported
    account: str | None = None
    model: str | None = None
    until: float | None = None
    message: str = ""
    cooling_until: float | None = None  #: no run asks it before; None: it may be asked
    times: int = 0  #: it ran into one so often
    windows: tuple[QuotaWindow, ...] = ()


class LimitStatus(Struct, frozen=True, kw_only=True):
    """The state of a limit now; a limit for each single run has no sum."""

    limit: Limit
    spent: float | None = None
    reserved: float | None = None
    until: float | None = None  #: when a new window begins


class CostSum(Struct, frozen=True, kw_only=True):
    """What several attempts cost that have all this in common."""

    agent: str
    account: str | None = None
    model: str | None = None
    type: str | None = None
    repo: str = ""
    source: CostSource = "unknown"
    notional: bool = False
    at: float = 0.0  #: when the time began in which they were started
    attempts: int
    done: int
    unknown: int  #: of unknown cost
    usd: float
    reserved_usd: float
    notional_usd: float
    tokens: int
    seconds: float


class CostRow(Struct, frozen=True, kw_only=True):
    """What one agent, model, day, repository or kind of task cost."""

    key: str
    usd: float  #: known to be spent
    reserved_usd: float  #: for attempts at work, and for those of unknown cost
    tokens: int
    attempts: int
    done: int
    seconds: float
    unknown: int  #: attempts among them whose cost nobody knows; money stays reserved for them
    notional_usd: float | UnsetType = UNSET  #: of `usd`: by agents with a subscription login, priced as by the API


class CostTable(Struct, frozen=True, kw_only=True):
    by: str
    usd: float
    source: CostSource  #: of what is known: the least sure
    reserved_usd: float
    rows: tuple[CostRow, ...]
    notional_usd: float = 0.0  #: of `usd`
    accounts: tuple[str, ...] = ()  #: AGENT or AGENT@ACCOUNT of the attempts whose dollars are notional
    saved_usd: float | None = None  #: against the dearest model that was used
    saved_against: str | None = None


class NotStopped(Struct, frozen=True):
    """A run that a halt has not ended in time."""

    run: str
    why: str
    hint: str


class HaltReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a halt has come to by now."""

    stopped: list[str]
    not_stopped: tuple[NotStopped, ...] = ()
    idle: tuple[str, ...] = ()  #: nothing of these runs; each ends when it is resumed


class CostOverview(Struct, frozen=True, kw_only=True):
    """All that there is to tell of money at one time: sums by day and by every other dimension, and limits."""

    zone: str
    today: tuple[float, float]  #: spent, and reserved for attempts at work and for unknown cost
    month: tuple[float, float]
    days: CostTable
    tables: Mapping[str, CostTable]  #: by agent, account, model, repo, task-kind
    agent_days: Mapping[str, CostTable]  #: of each agent by day
    standings: tuple[LimitStatus, ...]
    quotas: tuple[Quota, ...]

    def by(self, dimension: By) -> CostTable:
        return self.days if dimension == "day" else self.tables[dimension]


NOTIONAL = "subscription login, priced as the API would be"


def notional_words(windows: Sequence[QuotaWindow]) -> str:
    """Say that dollars are notional, and what share of its windows each account has used."""
    used = ", ".join(f"{each.agent} {each.name} {100 * (each.used or 0.0):.0f} % used" for each in windows)
    return NOTIONAL + (f"; windows: {used}" if used else "")
