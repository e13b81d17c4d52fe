"""Review of a change: comments on its lines, and the button that sends them to its agent."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model import OPEN, Run, winner
from corral.model.review import Comment, CommentState, NewComment, read_place

router = APIRouter()
STATES: dict[str, CommentState] = {"open": "open", "resolved": "resolved"}


class Thread(Struct, frozen=True, kw_only=True):
    """A comment with what was said to it."""

    root: Comment
    replies: tuple[Comment, ...]


class ReviewView(Struct, frozen=True, kw_only=True):
    """What was said about a run's change, and to whom it can be sent."""

    run: str
    threads: tuple[Thread, ...]  #: open or sent
    folded: tuple[Thread, ...]  #: resolved or outdated
    open: int  #: comments that wait to be sent
    agent: str  #: who gets them
    over: bool  #: nobody works on the run
    since: str  #: the query that shows what the last revision changed
    version: str  #: the attempt whose work is shown, where no other is named
    versions: tuple[str, ...]  #: the attempts of its node that have work: with one of them it can be compared


def review_view(run: Run) -> ReviewView:
    """Return the threads of a run, in the order of their places."""
    replies: dict[str, list[Comment]] = {}
    for each in run.comments:
        if each.reply_to:
            replies.setdefault(each.reply_to, []).append(each)
    roots = sorted((each for each in run.comments if not each.reply_to), key=lambda each: (each.file, each.line or 0))
    threads = [Thread(root=each, replies=tuple(replies.get(each.id, ()))) for each in roots]
    shown = [each for each in threads if each.root.state in ("open", "sent")]
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    won = winner(run.nodes) or next((each for each in reversed(attempts) if each.commit), None)
    versions = next((node.attempts for node in run.nodes if won in node.attempts), ())
    revision = next((each for each in reversed(attempts) if each.revises and each.commit), None)
    return ReviewView(
        run=run.run,
        threads=tuple(shown),
        folded=tuple(each for each in threads if each not in shown),
        open=sum(each.state == "open" for thread in shown for each in (thread.root, *thread.replies)),
        agent=won.agent if won else "",
        over=run.status not in OPEN,
        since=f"attempt={revision.id}&against={revision.revises}" if revision else "",
        version=won.id if won else "",
        versions=tuple(each.id for each in versions if each.commit),
    )


@router.get("/runs/{run}/comments")
async def comments(run: str, request: Request, site: CurrentSite, caller: Reader) -> Response:
    """The threads, as the review shows them."""
    return frame.show(request, caller, "_review.html", review=review_view(site.engine.show(run)))


@router.post("/runs/{run}/comments")
async def comment(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Store one comment or a reply."""
    given = await form(request)
    name, lines = given.get("file", ""), given.get("lines", "").strip()
    _, line, last = read_place(f"x:{lines}") if lines else ("", None, None)
    if lines and line is None:
        raise RefusedRequest(422, "invalid", f"`{lines}` names no lines", hint="as 12 or 12-14")
    wanted = NewComment(
        text=given.get("text", ""),
        file=name,
        line=line,
        last_line=last,
        side="old" if given.get("side") == "old" else "new",
        attempt=given.get("attempt") or None,
        reply_to=given.get("reply_to") or None,
    )
    await site.engine.review.comment(run, [wanted], caller.by)
    return frame.show(request, caller, "_review.html", review=review_view(site.engine.show(run)))


@router.post("/runs/{run}/comments/{number}")
async def move(run: str, number: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Resolve a thread, or open it again."""
    state = STATES.get((await form(request)).get("state", ""))
    if state is None:
        raise RefusedRequest(422, "invalid", "a thread can be resolved or opened again")
    site.engine.review.move(run, [number], state)
    return frame.show(request, caller, "_review.html", review=review_view(site.engine.show(run)))


@router.post("/runs/{run}/revision")
async def revise(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Send all open comments to the agent; its page shows how it works on them."""
    text = (await form(request)).get("text", "").strip()
    name = await site.engine.open_revision(run, text, None, caller.by)
    await site.supervisor.begin(name, partial(site.engine.resume, name))
    return frame.go_to(f"/runs/{name}")
