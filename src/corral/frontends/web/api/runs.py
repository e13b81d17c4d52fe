"""Runs: submit, list, show."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.run_filters import Filters, read_filter
from corral.frontends.web import auth
from corral.frontends.web.api.bodies import Submission, request_of
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Caller, Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.frontends.web.problems import RefusedRequest
from corral.model import Run, RunPlan
from corral.model.errors import BadRequest
from corral.model.server import RunPage, Ticket

router = APIRouter(tags=["runs"])


@router.post("/runs", status_code=202, responses=gives(Run, 202, "Queued."), openapi_extra=takes(Submission))
async def submit(
    request: Request,
    site: CurrentSite,
    caller: Runner,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Response:
    """Queue a task or a flow. The same Idempotency-Key with the same body returns the same run."""
    wanted = await body(request, Submission)
    run, new = await enqueue(site, caller, wanted, idempotency_key)
    return answer(site.engine.show(run), 202 if new else 200, {"Location": f"/api/v1/runs/{run}"})


async def enqueue(site: Site, caller: Caller, wanted: Submission, key: str | None = None) -> tuple[str, bool]:
    """Check what is wanted, and put it into the queue; return the run, and whether it is new."""
    roots = site.settings.roots
    asked = auth.vet_request(request_of(wanted, auth.vet_repository(wanted.repo, roots)), caller, roots)
    ticket = Ticket(by=caller.by, priority=wanted.priority, key=f"{caller.token.id}/{key}" if key is not None else None)
    if before := site.engine.requests.before(asked, ticket):
        return before, False

    def vet(plan: RunPlan) -> None:
        auth.vet_plan(plan, caller, roots)

    return await site.engine.requests.enqueue(asked, ticket, vet=vet), True


@router.get("/runs", responses=gives(RunPage))
async def list_runs(  # noqa: PLR0913, PLR0917 -- one for each filter
    site: CurrentSite,
    _: Reader,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=100)] = None,
    status: Annotated[str | None, Query(max_length=200, description="One, or several with commas.")] = None,
    repo: Annotated[str | None, Query(max_length=4096)] = None,
    agent: Annotated[str | None, Query(max_length=100)] = None,
    q: Annotated[str | None, Query(max_length=200, description="Words in the task.")] = None,
    since: Annotated[str | None, Query(max_length=40, description="2d, 12h, or ISO 8601.")] = None,
    label: Annotated[tuple[str, ...], Query(max_length=50, description="KEY or KEY=VALUE; repeatable: all.")] = (),
    *,
    unmerged: Annotated[bool, Query(description="Only runs whose work is not merged.")] = False,
) -> Response:
    """List runs, newest first; `next` of the answer is `before` of the next page."""
    filters = Filters(
        status=(status or "",),
        label=label,
        repo=repo,
        agent=agent,
        unmerged=unmerged,
        since=since,
        words=q,
        before=before,
    )
    try:
        wanted = read_filter(limit + 1, filters)
    except BadRequest as error:
        raise RefusedRequest(422, "invalid", str(error), hint=error.hint) from error
    lines = site.engine.history.page(wanted)
    shown = lines[:limit]
    return answer(RunPage(runs=shown, next=shown[-1].run if len(lines) > limit else None))


@router.get("/runs/{run}", responses=gives(Run))
async def show(run: str, site: CurrentSite, _: Reader) -> Response:
    """Show one run: its id, the beginning of one, or @last. The same document as `corral show --json`."""
    return answer(await site.engine.merges.add_git_state(site.engine.show(run)))
