"""History: all runs, newest first, found by words, state, agent or repository."""

from __future__ import annotations

from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.app_state import Here
from corral.frontends.web.auth import Reader
from corral.frontends.web.pages import frame
from corral.model import Status
from corral.model.server import RunFilter

router = APIRouter()
PAGE = 50
STATUSES: tuple[Status, ...] = get_args(Status)
Word = Annotated[str, Query(max_length=200)]


@router.get("/runs")
async def history(  # noqa: PLR0913, PLR0917 -- one for each field of the form
    request: Request,
    site: Here,
    caller: Reader,
    q: Word = "",
    status: Word = "",
    agent: Word = "",
    repo: Annotated[str, Query(max_length=4096)] = "",
    before: Word = "",
) -> Response:
    statuses: tuple[Status, ...] = tuple(each for each in STATUSES if each == status)
    wanted = RunFilter(
        most=PAGE + 1, before=before or None, statuses=statuses, repo=repo or None, agent=agent or None, words=q or None
    )
    found = site.engine.history.page(wanted)
    shown = found[:PAGE]
    asked = {"q": q, "status": status, "agent": agent, "repo": repo}
    older = urlencode({**asked, "before": shown[-1].run}) if len(found) > PAGE else ""
    part = request.headers.get("hx-target") == "found"
    return frame.show(
        request, caller, "_runs.html" if part else "runs.html",
        runs=shown, older=older, asked=asked, before=before, statuses=STATUSES, counts=site.engine.history.run_counts(),
    )  # fmt: skip
