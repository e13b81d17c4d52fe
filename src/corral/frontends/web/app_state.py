"""What all routes share: the engine, who watches, what drives, and the settings of this server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends
from msgspec import Struct
from starlette.requests import HTTPConnection

from corral.engine.engine import Engine
from corral.model import RunPlan

if TYPE_CHECKING:
    from corral.engine.queue.supervisor import RunSupervisor
    from corral.frontends.web.limits import Limiter
    from corral.frontends.web.running_merges import RunningMerges
    from corral.frontends.web.streams import Hub


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
    foreman: RunSupervisor
    limiter: Limiter
    landings: RunningMerges
    vet: Callable[[RunPlan], None]  #: refuses a plan that leaves the allowed folders
    login_code: str = ""  #: opens the page once, from the link that is printed at the start


def site_of(connection: HTTPConnection) -> Site:
    return cast("Site", connection.app.state.site)


CurrentSite = Annotated[Site, Depends(site_of)]
