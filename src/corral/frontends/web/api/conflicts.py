"""What prevents merging a run, with the texts of all sides; and how a user settles it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import auth
from corral.frontends.web.api.bodies import ResolveBody
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import MergeCaller, Reader
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model import Run
from corral.model.merge import Conflicts, MergeRequest

router = APIRouter(tags=["runs"])
Branch = Annotated[
    str | None,
    Query(max_length=200, description="Branch to merge into. [default: the branch of the merge in conflict]"),
]
Only = Annotated[str | None, Query(max_length=4096, description="Only this path.")]


@router.get("/runs/{run}/conflicts", responses=gives(Conflicts))
async def conflicts(run: str, site: CurrentSite, _: Reader, into: Branch = None, path: Only = None) -> Response:
    """Show the conflicts of a run: each path, its kind of conflict, and its text at the base and on both sides.

    A version that is not text, or too long, has no text. This changes nothing.
    """
    return answer(await site.engine.merges.conflicts(run, auth.vet_branch(into), path))


@router.post(
    "/runs/{run}/conflicts",
    responses={**gives(Run), **gives(Run, 409, "Something is in conflict still: nothing was moved.")},
    openapi_extra=takes(ResolveBody),
)
async def settle(run: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Resolve conflicts file by file and merge the run, after checking the merged tree like any merge.

    Corral keeps choices until all are resolved. With `agent`, that agent resolves all files without a choice.
    """
    name, wanted = site.engine.find(run), await body(request, ResolveBody)
    if wanted.agent is not None:
        caller.needs("run")
    record = await site.engine.merges.merge(_request(name, wanted), lambda _: None)
    return answer(site.engine.show(name), 409 if record.state == "conflict" else 200)


def _request(run: str, wanted: ResolveBody) -> MergeRequest:
    auth.vet_paths((*wanted.choices, *wanted.texts))
    return MergeRequest(
        run=run,
        into=auth.vet_branch(wanted.into),
        strategy=wanted.strategy,
        resolve=tuple(wanted.choices.items()),
        texts=tuple(wanted.texts.items()),
        seen=wanted.seen,
        resolve_with=wanted.agent,
        tries=wanted.tries,
        autostash=wanted.autostash,
        checks=wanted.checks,
    )
