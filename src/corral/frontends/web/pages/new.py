"""A new task: what is to be done, by whom, and how it is proven."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.api.bodies import Submission, submission
from corral.frontends.web.api.runs import enqueue
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model.request import read_labels

router = APIRouter()


@router.get("/new")
async def ask(request: Request, site: CurrentSite, caller: Reader) -> Response:
    agents = [agent for agent in await site.engine.list_agents(strict=False) if agent.program]
    usual = site.engine.settings.load(site.settings.roots[0]).defaults.agent
    return frame.show(request, caller, "new.html", agents=agents, roots=site.settings.roots, usual=usual)


@router.post("/new")
async def submit(request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Put it into the queue, and open its screen."""
    given = await form(request)
    fields: dict[str, object] = {
        "task": given.get("task", "").strip(),
        "repo": given.get("repo", "").strip(),
        "name": given.get("name", "").strip() or None,
        "labels": read_labels([each for each in given.get("labels", "").split() if each]),
        "agents": [each.strip() for each in given.get("agents", "").split(",") if each.strip()],
        "strategy": given.get("strategy") or None,
        "checks": [each.strip() for each in given.get("checks", "").splitlines() if each.strip()],
        "budget_usd": _amount(given.get("budget", "").strip()),
        "timeout": given.get("timeout", "").strip() or None,
        "merge": "auto" if given.get("merge") else "never",
    }
    run, _ = await enqueue(site, caller, _submission(fields))
    return frame.go_to(f"/runs/{run}")


def _submission(fields: dict[str, object]) -> Submission:
    try:
        return submission(fields)
    except msgspec.ValidationError as error:
        raise RefusedRequest(422, "invalid", str(error), hint="see /api/v1/openapi.json") from error


def _amount(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise RefusedRequest(422, "invalid", f"budget: `{text}` is no amount of dollars", hint="as 1.50") from None
