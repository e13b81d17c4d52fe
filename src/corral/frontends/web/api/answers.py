"""Answers without a token: by signed links of notices, and by buttons of Slack."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from corral.engine.inbox.remote_answers import RemoteAnswers, SlackPress
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import form
from corral.frontends.web.bodies import OPEN
from corral.frontends.web.pages.frame import templates
from corral.frontends.web.problems import RefusedRequest
from corral.model import Entry
from corral.model.errors import BadRequest, NotFound

router = APIRouter(tags=["inbox"])
open_router = APIRouter(include_in_schema=False)
_answering: set[asyncio.Task[None]] = set()


@router.post("/slack", openapi_extra=OPEN)
async def take_press(request: Request, site: CurrentSite) -> Response:
    """Take a press of a button from Slack. It needs no token, but the signature of Slack."""
    press = site.engine.remote_answers.slack_press(request.headers, await request.body())
    if press is None:
        _count_wrong(request, site)
        raise RefusedRequest(401, "signature", "the signature of Slack is wrong, old or used already")
    task = asyncio.create_task(_answer_press(site.engine.remote_answers, press))  # Slack waits three seconds at most
    _answering.add(task)
    task.add_done_callback(_answering.discard)
    return Response(status_code=200)


async def _answer_press(answers: RemoteAnswers, press: SlackPress) -> None:
    await answers.answer_slack(press)


@open_router.get("/answer")
async def ask(request: Request, site: CurrentSite, code: str = "") -> Response:
    """Show what a link asks; only the form answers, since programs open links of mails by themselves."""
    entry, choices = _question(request, site, code)
    return _page(entry, choices, code)


@open_router.post("/answer")
async def give(request: Request, site: CurrentSite, code: str = "") -> Response:
    """Answer by a link: with what it says itself, or with what the form says."""
    given = await form(request)
    code = code or given.get("code", "")
    entry, choices = _question(request, site, code)
    try:
        entry = await site.engine.remote_answers.answer(code, given.get("answer", ""), "link")
    except BadRequest as error:
        now, _ = site.engine.remote_answers.question(code)
        raise RefusedRequest(400 if now.is_open else 409, "answered", str(error), hint=error.hint) from error
    return _page(entry, choices, code)


def _question(request: Request, site: Site, code: str) -> tuple[Entry, tuple[str, ...]]:
    try:
        return site.engine.remote_answers.question(code)
    except NotFound:
        _count_wrong(request, site)
        raise


def _page(entry: Entry, choices: tuple[str, ...], code: str) -> Response:
    page = templates().get_template("answer.html").render(entry=entry, choices=choices, code=code)
    return HTMLResponse(page)


def _count_wrong(request: Request, site: Site) -> None:
    site.limiter.count_wrong_secret(request.client.host if request.client else "-")
