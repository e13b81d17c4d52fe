"""Agents: what can run here and on other machines, how to fix what cannot, and what they read about a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import auth
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Caller, Reader, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest

router = APIRouter()
Repo = Annotated[str, Query(max_length=4096)]
MOST_FACT = 4000  #: characters


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


@router.get("/agents/machines")
async def machines_part(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Reach every machine of the user's settings, as `corral machines` does."""
    return frame.show(request, caller, "_machines.html", machines=await site.engine.list_machines())


# --- memory


@router.get("/memory")
async def memory(request: Request, site: CurrentSite, caller: Reader, repo: Repo = "") -> Response:
    return await _memory_page(request, site, caller, repo)


@router.post("/memory")
async def add_fact(request: Request, site: CurrentSite, caller: Admin, repo: Repo = "") -> Response:
    """Add a fact of the user's own."""
    text = _fact_text((await form(request)).get("text", ""))
    await site.engine.memory.add(_folder(site, repo), text)
    return await _memory_page(request, site, caller, repo)


@router.post("/memory/{fact}/{act}")
async def change_fact(
    fact: str, act: str, request: Request, site: CurrentSite, caller: Admin, repo: Repo = ""
) -> Response:
    """Approve, edit or forget a fact."""
    folder = _folder(site, repo)
    if act == "approve":
        await site.engine.memory.approve(folder, [fact])
    elif act == "edit":
        await site.engine.memory.edit(folder, fact, _fact_text((await form(request)).get("text", "")), None)
    elif act == "forget":
        await site.engine.memory.remove(folder, [fact])
    else:
        raise RefusedRequest(404, "not_found", f"a fact cannot {act[:40]}")
    return await _memory_page(request, site, caller, repo)


async def _memory_page(request: Request, site: Site, caller: Caller, repo: str) -> Response:
    part = "hx-request" in request.headers
    facts = await site.engine.memory.facts(_folder(site, repo))
    ordered = sorted(facts, key=lambda fact: (fact.state != "proposed", not fact.stale))
    name = "_memory.html" if part else "memory.html"
    return frame.show(request, caller, name, facts=ordered, repo=repo, folder=str(_folder(site, repo)))


def _folder(site: Site, repo: str) -> Path:
    return Path(auth.vet_repository(repo, site.settings.roots))


def _fact_text(text: str) -> str:
    if not text.strip() or len(text) > MOST_FACT:
        raise RefusedRequest(422, "invalid", f"a fact has 1 to {MOST_FACT} characters", hint="one plain sentence")
    return text.strip()
