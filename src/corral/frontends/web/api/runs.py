"""Runs: submit, list, show."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, cast, get_args

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import policy
from corral.frontends.web.api.bodies import Submission
from corral.frontends.web.api.rows import summary
from corral.frontends.web.app_state import Here, Site
from corral.frontends.web.auth import Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.frontends.web.caller import Caller
from corral.frontends.web.problems import Refused
from corral.model import Run, RunPlan, Status
from corral.model.server import RunFilter, RunPage, Ticket

router = APIRouter(tags=["runs"])
STATUSES: tuple[Status, ...] = get_args(Status)


@router.post("/runs", status_code=202, responses=gives(Run, 202, "Queued."), openapi_extra=takes(Submission))
async def submit(
    request: Request,
    site: Here,
    caller: Runner,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Response:
    """Put a task, or a flow, into the queue. The same Idempotency-Key with the same body is the same run."""
    wanted = await body(request, Submission)
    run, new = await enqueue(site, caller, wanted, idempotency_key)
    return answer(site.engine.show(run), 202 if new else 200, {"Location": f"/api/v1/runs/{run}"})


async def enqueue(site: Site, caller: Caller, wanted: Submission, key: str | None = None) -> tuple[str, bool]:
    """Check what is wanted, and put it into the queue; return the run, and whether it is new."""
    roots = site.settings.roots
    asked = policy.request(wanted.request(policy.repository(wanted.repo, roots)), caller, roots)
    ticket = Ticket(by=caller.by, priority=wanted.priority, key=f"{caller.token.id}/{key}" if key is not None else None)
    if before := site.engine.requests.before(asked, ticket):
        return before, False

    def vet(plan: RunPlan) -> None:
        policy.plan(plan, caller, roots)

    return await site.engine.requests.enqueue(asked, ticket, vet=vet), True


@router.get("/runs", responses=gives(RunPage))
async def list_runs(  # noqa: PLR0913, PLR0917 -- one for each filter
    site: Here,
    _: Reader,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=100)] = None,
    status: Annotated[str | None, Query(max_length=200, description="One, or several with commas.")] = None,
    repo: Annotated[str | None, Query(max_length=4096)] = None,
    agent: Annotated[str | None, Query(max_length=100)] = None,
    q: Annotated[str | None, Query(max_length=200, description="Words in the task.")] = None,
    since: Annotated[str | None, Query(max_length=40, description="ISO 8601.")] = None,
) -> Response:
    """List runs, newest first; `next` of the answer is `before` of the next page."""
    wanted = RunFilter(
        most=limit + 1,
        before=before,
        statuses=_statuses(status),
        repo=repo,
        agent=agent,
        words=q or None,
        since=_moment(since),
    )
    lines = site.engine.history.page(wanted)
    shown = lines[:limit]
    return answer(RunPage(runs=[summary(line) for line in shown], next=shown[-1].run if len(lines) > limit else None))


@router.get("/runs/{run}", responses=gives(Run))
async def show(run: str, site: Here, _: Reader) -> Response:
    """Show one run: its id, the beginning of one, or @last. The same document as `corral show --json`."""
    return answer(await site.engine.merges.told(site.engine.show(run)))


def _statuses(text: str | None) -> tuple[Status, ...]:
    found = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    for each in found:
        if each not in STATUSES:
            raise Refused(422, "invalid", f"`{each}` is no status", hint="of: " + ", ".join(STATUSES))
    return cast("tuple[Status, ...]", found)


def _moment(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError) as error:
        raise Refused(422, "invalid", f"since: `{text}` is no time", hint="as 2026-05-01T00:00:00Z") from error
