"""State that all routes share: the engine, viewers, settings, and how often each caller may ask."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends
from msgspec import Struct
from starlette.requests import HTTPConnection

from corral.engine.engine import Engine
from corral.frontends.web.problems import RefusedRequest
from corral.model import RunPlan

if TYPE_CHECKING:
    from corral.engine.queue.supervisor import RunSupervisor
    from corral.frontends.web.running_merges import RunningMerges
    from corral.frontends.web.running_plans import RunningPlans
    from corral.frontends.web.streams import Hub

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


class ServerSettings(Struct, frozen=True, kw_only=True):
    """How this server was started."""

    roots: tuple[Path, ...]  #: below these lie the repositories that requests may name
    hosts: tuple[str, ...] = ()  #: names it may be called by, besides those of the loopback
    port: int = 0
    secure: bool = False  #: behind TLS, its own or a proxy's
    rate_per_second: float = 100.0  #: per token; 0: no limit
    body_bytes: int = 1 << 20
    body_seconds: float = 30.0
    viewers: int = 2000


class Site(Struct, kw_only=True):
    """One running server."""

    engine: Engine
    settings: ServerSettings
    hub: Hub
    supervisor: RunSupervisor
    limiter: Limiter
    running_merges: RunningMerges
    running_plans: RunningPlans
    vet: Callable[[RunPlan], None]  #: refuses a plan that leaves the allowed folders
    login_code: str = ""  #: opens the page once, from the link that is printed at the start


def site_of(connection: HTTPConnection) -> Site:
    return cast("Site", connection.app.state.site)


CurrentSite = Annotated[Site, Depends(site_of)]
