"""History: all runs, newest first, found by words, state, agent or repository."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.run_filters import STATUSES, Filters, read_filter
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader
from corral.frontends.web.pages import frame
from corral.model.errors import BadRequest

router = APIRouter()
PAGE = 50
Word = Annotated[str, Query(max_length=200)]


@router.get("/runs")
async def history(  # noqa: PLR0913, PLR0917 -- one for each field of the form
    request: Request,
    site: CurrentSite,
    caller: Reader,
    q: Word = "",
    status: Word = "",
    agent: Word = "",
    repo: Annotated[str, Query(max_length=4096)] = "",
    label: Word = "",
    since: Word = "",
    unmerged: Word = "",
    before: Word = "",
) -> Response:
    known = status if status in STATUSES else ""
    filters = Filters(status=(known,), agent=agent, repo=repo, words=q, before=before, unmerged=unmerged == "1")
    filters["label"], filters["since"] = [label] if label else [], since
    trouble = ""
    try:
        found = site.engine.history.page(read_filter(PAGE + 1, filters))
    except BadRequest as error:  # said where the runs would be: a word is typed letter by letter
        found, trouble = [], f"{error}; {error.hint}"
    shown = found[:PAGE]
    asked = {"q": q, "status": status, "agent": agent, "repo": repo}
    asked |= {"label": label, "since": since, "unmerged": unmerged}
    older = urlencode({**asked, "before": shown[-1].run}) if len(found) > PAGE else ""
    part = request.headers.get("hx-target") == "found"
    return frame.show(
        request, caller, "_runs.html" if part else "runs.html",
        runs=shown, older=older, trouble=trouble,
        asked=asked, before=before, statuses=STATUSES, counts=site.engine.history.run_counts(),
    )  # fmt: skip
