"""Memory: what agents read about a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.memory import FactView
from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Reader
from corral.frontends.web.bodies import answer, body, gives, takes

router = APIRouter(tags=["memory"])
Repo = Annotated[str, Query(max_length=4096)]


class FactBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=4000)]
    files: tuple[str, ...] = ()
    repo: Annotated[str, Meta(max_length=4096)] = ""


class RemovedFacts(Struct, frozen=True, kw_only=True):
    removed: list[str]


@router.get("/memory", responses=gives(list[FactView]))
async def list_facts(
    site: CurrentSite, _: Reader, repo: Repo = "", words: Annotated[str, Query(max_length=4000)] = ""
) -> Response:
    """List the facts of a repository, or search them by words."""
    folder = _folder(site, repo)
    memory = site.engine.memory
    return answer(await (memory.search(folder, words) if words else memory.facts(folder)))


@router.post("/memory", status_code=201, responses=gives(FactView, 201), openapi_extra=takes(FactBody))
async def add_fact(request: Request, site: CurrentSite, _: Admin) -> Response:
    """Add a fact that agents read from now on."""
    wanted = await body(request, FactBody)
    return answer(await site.engine.memory.add(_folder(site, wanted.repo), wanted.text, wanted.files), 201)


@router.post("/memory/{fact}/approve", responses=gives(FactView))
async def approve_fact(fact: str, site: CurrentSite, _: Admin, repo: Repo = "") -> Response:
    """Approve a fact that an agent proposed."""
    return answer((await site.engine.memory.approve(_folder(site, repo), [fact]))[0])


@router.delete("/memory/{fact}", responses=gives(RemovedFacts))
async def remove_fact(fact: str, site: CurrentSite, _: Admin, repo: Repo = "") -> Response:
    """Remove a fact."""
    removed = await site.engine.memory.remove(_folder(site, repo), [fact])
    return answer(RemovedFacts(removed=[each.id for each in removed]))


def _folder(site: Site, repo: str) -> Path:
    return Path(auth.vet_repository(repo, site.settings.roots))
