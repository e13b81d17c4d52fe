"""Tools: programs that are kept for a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.programs import shown_record
from corral.engine.tools import ToolView
from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes

router = APIRouter(tags=["tools"])
Repo = Annotated[str, Query(max_length=4096)]


class ToolInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: Any = None
    repo: Annotated[str, Meta(max_length=4096)] = ""


class RemovedTool(Struct, frozen=True, kw_only=True):
    removed: list[str]


@router.get("/tools", responses=gives(list[ToolView]))
async def list_tools(site: CurrentSite, _: Reader, repo: Repo = "") -> Response:
    """List the tools of a repository and of the server's user."""
    return answer(await site.engine.tools.list(_folder(site, repo)))


@router.get("/tools/{name}", responses=gives(ToolView))
async def show_tool(name: str, site: CurrentSite, _: Reader, repo: Repo = "") -> Response:
    """Show one tool, with its program."""
    return answer(await site.engine.tools.show(_folder(site, repo), name))


@router.post("/tools/{name}/run", responses=gives(dict[str, Any]), openapi_extra=takes(ToolInput))
async def run_tool(name: str, request: Request, site: CurrentSite, _: Runner) -> Response:
    """Run an approved tool; a tool that fails is a result with an `error`."""
    wanted = await body(request, ToolInput)
    record = await site.engine.tools.run(_folder(site, wanted.repo), name, wanted.input, lambda _: None)
    return answer(shown_record(record))


@router.post("/tools/{name}/approve", responses=gives(ToolView))
async def approve_tool(name: str, site: CurrentSite, _: Admin, repo: Repo = "") -> Response:
    """Approve a tool as it is now."""
    return answer(await site.engine.tools.approve(_folder(site, repo), name))


@router.delete("/tools/{name}", responses=gives(RemovedTool))
async def remove_tool(name: str, site: CurrentSite, _: Admin, repo: Repo = "") -> Response:
    """Remove a tool."""
    return answer(RemovedTool(removed=[(await site.engine.tools.remove(_folder(site, repo), name)).name]))


def _folder(site: Site, repo: str) -> Path:
    return Path(auth.vet_repository(repo, site.settings.roots))
