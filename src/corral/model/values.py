"""Values that everything uses: statuses, failures, costs, and the limits of numbers."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Literal, get_args

from msgspec import UNSET, Struct, UnsetType, field

Status = Literal[
    "queued", "running", "paused", "waiting", "done", "failed", "timed_out", "limited", "over_budget", "stopped",
    "skipped", "partial",
]  # fmt: skip
OPEN: frozenset[Status] = frozenset({"queued", "running", "paused", "waiting"})
ErrorClass = Literal[
    "not_found", "auth", "rate_limit", "overloaded", "network", "tls", "context_too_long", "refused", "denied",
    "bad_output", "no_change", "check_failed", "scope_violation", "crash", "memory", "disk", "processes", "flood",
    "budget", "doubtful",
]  # fmt: skip
#: What a shell answers where a program cannot be run, or is not there.
NOT_STARTED = (126, 127)
NOT_STARTED_HINT = "a program on this machine may be missing in the box: show it with --read PATH or [scope] read"
#: From what is known best to what is not known at all; a sum is only as good as its worst part.
CostSource = Literal["reported", "fixed", "metered", "computed", "estimated", "unknown"]
SOURCES: tuple[CostSource, ...] = get_args(CostSource)
Level = Literal["full", "strict", "container", "landlock", "seatbelt", "none"]
MOST_TOKENS = 2**53
MOST_USD = 1e6  #: of one attempt; a larger price is no price
MOST_DIGITS = 400
MOST_RETRIES = 100
MOST_ROUNDS = 10_000  #: of a node that is repeated until something holds


class Tokens(Struct, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def within_limits(self) -> Tokens:
        """The same counts, each within what can be stored."""
        asked, answered, read, written = self.input, self.output, self.cache_read, self.cache_write
        # Each line of an agent may come by here, and this is quicker than any loop.
        least, most = 0, MOST_TOKENS
        if least <= asked <= most and least <= answered <= most and least <= read <= most and least <= written <= most:
            return self
        return Tokens(*map(token_count, (asked, answered, read, written)))

    def less(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input - other.input,
            self.output - other.output,
            self.cache_read - other.cache_read,
            self.cache_write - other.cache_write,
        )

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        ).within_limits


class Cost(Struct, frozen=True):
    """What is known to be spent, and what is reserved for what is not known."""

    usd: float | None = None
    source: CostSource = "unknown"
    reserved_usd: float = 0.0
    disputed: bool | UnsetType = UNSET  #: the agent's word and the meter differ; the larger counts
    notional: bool | UnsetType = UNSET  #: its agent is logged in with a subscription: priced as by the API, not billed


class Failure(Struct, frozen=True):
    """Why something failed: a class to act on, words to read, and what to do about it."""

    kind: ErrorClass = field(name="class")
    message: str
    hint: str = ""
    lasting: bool | UnsetType = UNSET  #: the same again would most likely end the same: retried only if a user asks


def moment(seconds: float) -> str:
    """Return a time as every document of ours says it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def usd_or_none(value: object) -> float | None:
    """Return a price in dollars; None where it is no number, negative, infinite or above `MOST_USD`."""
    number = _number(value)
    return number if number is not None and 0.0 <= number <= MOST_USD else None


def token_count(value: object) -> int:
    """Return a count of tokens between 0 and `MOST_TOKENS`; 0 for what is no number, and for infinity."""
    if type(value) is int:
        return value if 0 <= value <= MOST_TOKENS else min(max(value, 0), MOST_TOKENS)
    number = _number(value)
    return 0 if number is None or math.isinf(number) else int(min(max(number, 0.0), float(MOST_TOKENS)))


def _number(value: object) -> float | None:
    """Return what a report says as a float; None for NaN and for what is no number. Infinity stays infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > MOST_DIGITS:
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf
    except ValueError:
        return None
    return None if math.isnan(number) else number
