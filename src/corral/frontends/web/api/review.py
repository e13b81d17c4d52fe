"""Review of a run: comments on lines, and revisions that answer them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.api.bodies import Text, Word
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model import Run
from corral.model.review import Comment, NewComment

router = APIRouter(tags=["review"])


class CommentsBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    comments: Annotated[tuple[NewComment, ...], Meta(min_length=1, max_length=1000)]  #: all are stored, or none


class StateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["open", "resolved"]


class ReviseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Text = ""  #: said besides the comments
    attempt: Word | None = None  #: its id or number; else the one that the comments are about, or the winner


@router.get("/runs/{run}/comments", responses=gives(list[Comment]))
async def comments(run: str, site: CurrentSite, _: Reader) -> Response:
    """List the comments on the change of a run, oldest first."""
    return answer(site.engine.review.comments(run))


@router.post(
    "/runs/{run}/comments", status_code=201, responses=gives(list[Comment], 201, "Stored."),
    openapi_extra=takes(CommentsBody),
)  # fmt: skip
async def comment(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Comment on files or lines that a run changed; `reply_to` answers a comment."""
    wanted = await body(request, CommentsBody)
    return answer(await site.engine.review.comment(run, wanted.comments, caller.by), 201)


@router.post("/runs/{run}/comments/{comment}", responses=gives(list[Comment]), openapi_extra=takes(StateBody))
async def move_comment(run: str, comment: str, request: Request, site: CurrentSite, _: Runner) -> Response:
    """Resolve a thread of comments, or open it again."""
    wanted = await body(request, StateBody)
    return answer(site.engine.review.move(run, [comment], wanted.state))


@router.post(
    "/runs/{run}/revise", status_code=202, responses=gives(Run, 202, "Its agent works on it."),
    openapi_extra=takes(ReviseBody, required=False),
)  # fmt: skip
async def revise(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Send all open comments to the agent of an attempt; the result is a new attempt, checked as before."""
    wanted = await body(request, ReviseBody, required=False)
    name = await site.engine.open_revision(run, wanted.text, wanted.attempt, caller.by)
    await site.supervisor.begin(name, partial(site.engine.resume, name))
    return answer(site.engine.show(name), 202)
