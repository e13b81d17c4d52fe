"""A new task: what is to be done, by whom, and how it is proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import policy
from corral.frontends.web.api.bodies import Submission, submission
from corral.frontends.web.api.runs import enqueue
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model.request import read_labels
from corral.model.server import RunFilter

router = APIRouter()


KNOWN_MOST = 200  #: runs whose repositories are offered


@router.get("/new")
async def ask(request: Request, site: CurrentSite, caller: Reader, repo: str = "") -> Response:
    places = _repositories(site)
    chosen = policy.repository(repo, site.settings.roots) if repo else str(places[0])
    folder = Path(chosen)
    settings = site.engine.settings.load(folder).defaults
    values = {
        "agents": site.engine.installed_agents(folder),
        "usual": settings.agent or "claude",
        "places": places,
        "chosen": chosen,
        "checks": dict.fromkeys([*settings.checks, *site.engine.find_checks(folder)]),
        "usual_checks": settings.checks,
        "roots": site.settings.roots,
        "limit": settings.budget_usd,
    }
    return frame.show(request, caller, "new.html", **values)


def _repositories(site: Site) -> list[str]:
    """Return where a task can be started: the repositories of earlier runs, and those right below the roots."""
    found: dict[str, None] = {}
    for line in site.engine.history.page(RunFilter(most=KNOWN_MOST, top_level=True)):
        if Path(line.repo).is_dir() and any(Path(line.repo).is_relative_to(root) for root in site.settings.roots):
            found[line.repo] = None
    for root in site.settings.roots:
        for folder in (root, *sorted(each.parent for each in root.glob("*/.git"))):
            if (folder / ".git").exists():
                found[str(folder)] = None
    return list(found) or [str(site.settings.roots[0])]


@router.post("/new")
async def submit(request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Put it into the queue, and open its screen."""
    given = await form(request)
    fields: dict[str, object] = {
        "task": given.get("task", "").strip(),
        "repo": given.get("repo", "").strip(),
        "name": given.get("name", "").strip() or None,
        "labels": read_labels([each for each in given.get("labels", "").split() if each]),
        "agents": [*_ticked(given, "agent "), *_words(given.get("agents", "").split(","))],
        "strategy": given.get("strategy") or None,
        "checks": [*_ticked(given, "check "), *_words(given.get("checks", "").splitlines())],
        "budget_usd": _amount(given.get("budget", "").strip()),
        "timeout": given.get("timeout", "").strip() or None,
        "merge": "auto" if given.get("merge") else "never",
    }
    run, _ = await enqueue(site, caller, _submission(fields))
    return frame.go_to(f"/runs/{run}")


def _ticked(given: Mapping[str, str], start: str) -> list[str]:
    """Return the names of the boxes that are ticked."""
    return [name.removeprefix(start) for name in given if name.startswith(start)]


def _words(parts: Sequence[str]) -> list[str]:
    return [each.strip() for each in parts if each.strip()]


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
