"""Words that all of it uses: how things stand, why they fail, what they cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from corral.model.numbers import MOST_TOKENS, token_count

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

CostSource = Literal["reported", "metered", "computed", "estimated", "fixed", "unknown"]

Level = Literal["full", "strict", "container", "landlock", "seatbelt", "none"]


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
        counts = (self.input, self.output, self.cache_read, self.cache_write)
        return self if all(0 <= each <= MOST_TOKENS for each in counts) else Tokens(*map(token_count, counts))

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
    lasting: bool | UnsetType = UNSET  #: the same again would most likely end the same: only if a person asks


def moment(seconds: float) -> str:
    """Return a time as every document of ours says it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
