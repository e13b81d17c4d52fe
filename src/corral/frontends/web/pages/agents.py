"""Agents: what can run here, and how to mend what cannot."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader
from corral.frontends.web.pages import frame

router = APIRouter()


@router.get("/agents")
async def agents(request: Request, caller: Reader) -> Response:
    """The frame at once; what takes time to find out comes after it."""
    return frame.show(request, caller, "agents.html")


@router.get("/agents/found")
async def agents_part(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Ask every program for its version, as `corral doctor` does."""
    report = await site.engine.examine()
    there = [agent for agent in report.agents if agent.program]
    return frame.show(
        request, caller, "_agents.html",
        report=report, there=there, missing=[agent for agent in report.agents if not agent.program],
        records=site.engine.history.attempt_counts(),
    )  # fmt: skip
