"""How often one may ask: a bucket for each token, and one for each address that shows wrong ones."""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from corral.frontends.web.problems import RefusedRequest

BURST_SECONDS = 5.0  #: so much of the rate may come at once
WRONG_PER_MINUTE = 20.0
MOST_BUCKETS = 10_000


class Buckets:
    """Buckets that fill by the clock; the least used are forgotten."""

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second, self._most = per_second, most
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: str) -> float:
        """Return 0 if one more is allowed (and count it), else how long to wait."""
        now = time.monotonic()
        left, at = self._filled.pop(name, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._filled[name] = (left if wait else left - 1, now)
        if len(self._filled) > MOST_BUCKETS:
            self._filled.popitem(last=False)
        return wait


class Limiter:
    """All limits of one server."""

    def __init__(self, per_second: float) -> None:
        self._tokens = Buckets(per_second, max(1.0, per_second * BURST_SECONDS)) if per_second else None
        self._wrong = Buckets(WRONG_PER_MINUTE / 60, WRONG_PER_MINUTE)

    def count_request(self, token: str) -> None:
        """Count a request; refuse it if there were too many."""
        if self._tokens and (wait := self._tokens.wait_seconds(token)):
            raise _too_many(wait)

    def count_wrong_secret(self, address: str) -> None:
        """Count a wrong secret; where too many came from nothing else is said."""
        if wait := self._wrong.wait_seconds(address):
            raise _too_many(wait)


def _too_many(wait: float) -> RefusedRequest:
    seconds = math.ceil(wait)
    return RefusedRequest(429, "too_many", "too many requests", hint=f"wait {seconds} s", retry_seconds=seconds)
