"""After a failure: try again, when, or give up."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from corral.model import Attempt, ErrorClass, RetryPolicy, Status

#: Passes by itself, often.
PASSING: frozenset[ErrorClass] = frozenset({"rate_limit", "overloaded", "network", "crash", "bad_output"})
#: The same again would cost the same and most likely end the same: only when the person asks for tries.
IF_ASKED: frozenset[ErrorClass] = frozenset(
    {"check_failed", "doubtful", "no_change", "denied", "memory", "processes", "flood", "context_too_long"}
)
#: No need to wait before these: nothing outside has to recover.
AT_ONCE: frozenset[ErrorClass] = frozenset({"check_failed", "doubtful", "no_change", "bad_output", "denied"})
ENDS: frozenset[Status] = frozenset({"done", "stopped", "over_budget", "skipped", "limited"})


def delay_seconds(tries: Sequence[Attempt], policy: RetryPolicy, asked: int | None) -> float | None:
    """Return how long to wait before the next try of a node, or None to give up.

    `tries` are those that ended, oldest first; `asked` is the number of retries a person or a file named.
    """
    last = tries[-1]
    most = policy.most if asked is None else asked
    kind = last.error.kind if last.error else None
    lasting = bool(last.error and last.error.lasting is True and asked is None)
    if last.status in ENDS or len(tries) > most or lasting or not _worth_it(last.status, kind, asked is not None):
        return None
    if kind in AT_ONCE:
        return 0.0
    delay = policy.delay_seconds * (2 ** (len(tries) - 1) if policy.exponential else 1)
    return min(delay, policy.longest_seconds) * _jitter(last.id)


def _worth_it(status: Status, kind: ErrorClass | None, asked: bool) -> bool:  # noqa: FBT001
    if status == "timed_out":
        return asked
    return kind in PASSING or (asked and kind in IF_ASKED)


def _jitter(seed: str) -> float:
    """Spread waits over the upper half, the same for the same attempt."""
    return 0.5 + zlib.crc32(seed.encode()) % 1000 / 2000
