"""The machine: agents, health, metrics."""

from __future__ import annotations

import time

from fastapi import APIRouter
from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from corral.engine.doctor import AgentReport, Doctor
from corral.frontends.web import metrics
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader
from corral.frontends.web.bodies import OPEN, answer, gives
from corral.model.errors import CorralError
from corral.version import __version__

router = APIRouter(tags=["machine"])
open_router = APIRouter(tags=["machine"])  #: without a token: they say nothing that is anybody's


class Health(Struct, frozen=True, kw_only=True):
    """Whether the server can do its work, and what of it is not as it should be."""

    status: str  #: ok, degraded or down
    version: str
    parts: dict[str, str]  #: name to `ok`, or what is wrong


@router.get("/agents", responses=gives(list[AgentReport]))
async def agents(site: CurrentSite, _: Reader) -> Response:
    """List the agents that can be asked for, and what is known about them."""
    return answer(await site.engine.list_agents())


@router.get("/doctor", responses=gives(Doctor))
async def doctor(site: CurrentSite, _: Reader) -> Response:
    """Say what can run here, and how to mend what cannot."""
    return answer(await site.engine.examine())


@router.get("/health", responses=gives(Health))
async def health(site: CurrentSite, _: Reader) -> Response:
    """Say what is degraded, in words."""
    return answer(_health(site))


@router.get("/metrics", responses={200: {"description": "Prometheus text.", "content": {"text/plain": {}}}})
async def show_metrics(site: CurrentSite, _: Reader) -> Response:
    """Give numbers as Prometheus reads them."""
    return PlainTextResponse(metrics.text(site), media_type="text/plain; version=0.0.4; charset=utf-8")


@open_router.get("/health/live", responses=gives(dict[str, str]), openapi_extra=OPEN)
async def live() -> Response:
    """Say that the process answers."""
    return answer({"status": "ok"})


@open_router.get(
    "/health/ready", openapi_extra=OPEN,
    responses={**gives(dict[str, str]), **gives(dict[str, str], 503, "Work cannot be taken up.")},
)  # fmt: skip
async def ready(site: CurrentSite) -> Response:
    """Say whether work can be taken up; 503 if not."""
    status = _health(site).status
    return answer({"status": status}, 503 if status == "down" else 200)


def _health(site: Site) -> Health:
    parts: dict[str, str] = {}
    try:
        started = time.perf_counter()
        site.engine.check_writable()
        slow = time.perf_counter() - started > 1.0
        parts["store"] = "writing takes more than a second" if slow else "ok"
        parts["queue"] = "held: nothing is taken up" if site.engine.queue.is_held else "ok"
        parts["money"] = f"everything is halted ({where})" if (where := site.engine.money.halted_by()) else "ok"
    except CorralError as error:
        parts["store"] = f"down: {error}"
    parts["foreman"] = site.foreman.trouble() or "ok"
    down = parts["store"].startswith("down") or parts["foreman"].startswith("down")
    good = all(words == "ok" for words in parts.values())
    return Health(status="down" if down else "ok" if good else "degraded", version=__version__, parts=parts)
