"""A new task: what is to be done, by whom, and how it is proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import auth
from corral.frontends.web.api.bodies import Submission, submission
from corral.frontends.web.api.runs import enqueue
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model.run import read_labels
from corral.model.server import RunFilter

router = APIRouter()


IMAGE = "image "  #: fields whose names begin so hold an image as base64
KNOWN_MOST = 200  #: runs whose repositories are offered


@router.get("/new")
async def ask(request: Request, site: CurrentSite, caller: Reader, repo: str = "") -> Response:
    places = known_repositories(site)
    chosen = auth.vet_repository(repo, site.settings.roots) if repo else next(iter(places), "")
    folder = Path(chosen or site.settings.roots[0])
    settings = site.engine.settings.load(folder).defaults
    values = {
        "agents": dict(sorted(site.engine.installed_agents(folder).items(), key=_rank)),
        "usual": settings.agent or "claude",
        "places": list(dict.fromkeys([*places, chosen])) if chosen else places,
        "chosen": chosen,
        "checks": dict.fromkeys([*settings.checks, *site.engine.find_checks(folder)]),
        "usual_checks": settings.checks,
        "roots": site.settings.roots,
        "limit": settings.budget_usd,
        "most_bytes": site.settings.body_bytes,
    }
    return frame.show(request, caller, "new.html", **values)


def _rank(agent: tuple[str, str]) -> tuple[bool, bool, str]:
    """Put first what can start: agents with a login, and a program itself before the same one over ACP."""
    name, login = agent
    return login == "not seen", ":" in name, name


def known_repositories(site: Site) -> list[str]:
    """Return where a task can be started: the repositories of earlier runs, and those below the roots."""
    found: dict[str, None] = {}
    for line in site.engine.history.page(RunFilter(most=KNOWN_MOST, top_level=True)):
        folder, roots = Path(line.repo), site.settings.roots
        within = folder.is_dir() and any(folder.is_relative_to(root) for root in roots)
        if within and (folder not in roots or auth.is_repository(folder)):
            found[line.repo] = None
    return list(found | dict.fromkeys(auth.repositories_below(site.settings.roots)))


@router.post("/new")
async def submit(request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Put it into the queue, and open its screen."""
    given = await form(request)
    fields: dict[str, object] = {
        "task": given.get("task", "").strip(),
        "repo": chosen_repository(given),
        "name": given.get("name", "").strip() or None,
        "labels": read_labels([each for each in given.get("labels", "").split() if each]),
        "agents": [*_ticked_names(given, "agent "), *_words(given.get("agents", "").split(","))],
        "strategy": given.get("strategy") or None,
        "checks": [*_ticked_names(given, "check "), *_words(given.get("checks", "").splitlines())],
        "budget_usd": amount(given.get("budget", "").strip()),
        "timeout": given.get("timeout", "").strip() or None,
        "merge": "auto" if given.get("merge") else "never",
        "images": [
            {"name": name.removeprefix(IMAGE), "data": data} for name, data in given.items() if name.startswith(IMAGE)
        ],
    }
    run, _ = await enqueue(site, caller, _submission(fields))
    return frame.go_to(f"/runs/{run}")


def chosen_repository(given: Mapping[str, str]) -> str:
    """Return the repository of a form: the folder that is written, or the one that is picked."""
    return given.get("other_repo", "").strip() or given.get("repo", "").strip()


def _ticked_names(given: Mapping[str, str], start: str) -> list[str]:
    """Return the names of the boxes that are ticked."""
    return [name.removeprefix(start) for name in given if name.startswith(start)]


def _words(parts: Sequence[str]) -> list[str]:
    return [each.strip() for each in parts if each.strip()]


def _submission(fields: dict[str, object]) -> Submission:
    try:
        return submission(fields)
    except msgspec.ValidationError as error:
        raise RefusedRequest(422, "invalid", str(error), hint="see /api/v1/openapi.json") from error


def amount(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise RefusedRequest(422, "invalid", f"budget: `{text}` is no amount of dollars", hint="as 1.50") from None
