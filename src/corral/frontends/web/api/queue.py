"""The queue: what waits to be taken up, in which order, how many at once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.api.bodies import QueueChange, QueueMove
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Admin, Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model.server import QueuedRun, QueueState

router = APIRouter(tags=["queue"])


@router.get("/queue", responses=gives(QueueState))
async def show(site: CurrentSite, _: Reader, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
    """Show the queued runs in their order."""
    return answer(site.engine.queue.state(limit))


@router.patch("/queue", responses=gives(QueueState), openapi_extra=takes(QueueChange))
async def change(request: Request, site: CurrentSite, _: Admin) -> Response:
    """Stop or start the queue; set the maximum number of runs at once."""
    wanted = await body(request, QueueChange)
    if wanted.held is not None:
        site.engine.queue.hold(held=wanted.held)
    if wanted.concurrency is not None:
        site.engine.queue.set_concurrency(wanted.concurrency)
    return answer(site.engine.queue.state(100))


@router.patch("/queue/{run}", responses=gives(QueuedRun), openapi_extra=takes(QueueMove))
async def move(run: str, request: Request, site: CurrentSite, _: Runner) -> Response:
    """Change the priority or place of a queued run: first, or before another."""
    wanted = await body(request, QueueMove)
    return answer(site.engine.queue.move(run, priority=wanted.priority, before=wanted.before, first=wanted.first))
