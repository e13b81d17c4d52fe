"""What is done to a run: stop, resume, steer, look at its change, merge it, take that back."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from corral.engine.merge import pick_files
from corral.engine.views.compare import Comparison
from corral.engine.views.evidence import EvidenceView
from corral.frontends.web import auth
from corral.frontends.web.api.bodies import ChooseBody, MergeBody, NodeBody, RenameBody, SteerBody
from corral.frontends.web.api.rows import ActionReply
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import MergeCaller, Reader, Runner
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model import Artifact, Receipt, Run
from corral.model.errors import NotFound
from corral.model.merge import Hunks, MergeRequest, Preview
from corral.model.server import Diff

router = APIRouter(tags=["runs"])
MOST_PATCH = 2 << 20
Attempt = Annotated[str | None, Query(max_length=100, description="Its id or number; else the winner's.")]


@router.post("/runs/{run}/stop", responses=gives(Run))
async def stop(run: str, site: CurrentSite, caller: Runner) -> Response:
    """Stop a run of any process, and wait until it has ended and its work is saved."""
    return answer(await site.engine.stop(run, caller.by))


@router.post("/runs/{run}/pause", responses=gives(ActionReply), openapi_extra=takes(NodeBody, required=False))
async def pause(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Pause a run, or one of its nodes; attempts at work end so that they can be resumed."""
    wanted, name = await body(request, NodeBody, required=False), site.engine.find(run)
    _check_node(site, name, wanted.node)
    return answer(ActionReply(run=name, answer=await site.engine.control.pause(name, wanted.node, caller.by)))


@router.post(
    "/runs/{run}/resume", status_code=202, responses=gives(Run, 202, "The run continues."),
    openapi_extra=takes(NodeBody, required=False),
)  # fmt: skip
async def resume(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Resume a run that was paused or parked, or whose process is gone, or one of its paused nodes."""
    wanted, name = await body(request, NodeBody, required=False), site.engine.find(run)
    _check_node(site, name, wanted.node)
    if wanted.node is not None and site.engine.is_active(name):
        await site.engine.control.unpause(name, wanted.node, caller.by)
    else:
        await site.supervisor.begin(name, partial(site.engine.resume, name))
    return answer(site.engine.show(name), 202)


@router.post(
    "/runs/{run}/retry", status_code=202, responses=gives(Run, 202, "It is done again."),
    openapi_extra=takes(NodeBody, required=False),
)  # fmt: skip
async def retry(run: str, request: Request, site: CurrentSite, _: Runner) -> Response:
    """Repeat what did not get done: one node and all nodes after it, or all nodes that failed."""
    wanted, name = await body(request, NodeBody, required=False), site.engine.find(run)
    _check_node(site, name, wanted.node)
    await site.supervisor.begin(name, lambda listen: site.engine.retry(name, wanted.node, listen, _ignore_text))
    return answer(site.engine.show(name), 202)


def _check_node(site: Site, run: str, node: str | None) -> None:
    known = [each.id for each in site.engine.show(run).nodes]
    if node is not None and node not in known:
        raise NotFound(f"run {run} has no node `{node}`", hint="it has: " + ", ".join(known[:20]))


@router.post("/runs/{run}/rename", responses=gives(Run), openapi_extra=takes(RenameBody))
async def rename(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Give a run a name; an empty name removes it."""
    wanted = await body(request, RenameBody)
    return answer(site.engine.show(site.engine.control.rename(run, wanted.name, caller.by)))


@router.post("/runs/{run}/steer", responses=gives(ActionReply), openapi_extra=takes(SteerBody))
async def steer(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Send a message to the agents of a run while they work; the answer reports its delivery."""
    wanted = await body(request, SteerBody)
    name = site.engine.find(run)
    return answer(ActionReply(run=name, answer=await site.engine.control.steer(name, wanted.text, caller.by)))


@router.post("/runs/{run}/condense", responses=gives(ActionReply))
async def condense(run: str, site: CurrentSite, caller: Runner) -> Response:
    """Continue the agents of a run in new sessions, from summaries of their work."""
    name = site.engine.find(run)
    return answer(ActionReply(run=name, answer=await site.engine.control.condense(name, caller.by)))


@router.get("/runs/{run}/diff", responses=gives(Diff))
async def diff(run: str, site: CurrentSite, _: Reader, attempt: Attempt = None) -> Response:
    """Show the change of a run as a patch, shortened if very long; `diff.patch` has all of it."""
    chosen = site.engine.work.changed_by(run, attempt)
    parts: list[bytes] = []
    size = 0

    def take(chunk: bytes) -> None:
        nonlocal size
        if size < MOST_PATCH:
            parts.append(chunk[: MOST_PATCH - size])
        size += len(chunk)

    await site.engine.work.diff(run, attempt, take)
    return answer(
        Diff(
            attempt=chosen.id,
            commit=chosen.commit,
            files_changed=chosen.files_changed,
            insertions=chosen.insertions,
            deletions=chosen.deletions,
            patch=b"".join(parts).decode(errors="replace"),
            cut=size > MOST_PATCH,
        )
    )


@router.get("/runs/{run}/diff.patch", responses={200: {"description": "A patch.", "content": {"text/x-patch": {}}}})
async def patch(run: str, site: CurrentSite, _: Reader, attempt: Attempt = None) -> Response:
    """Return the change of a run as a patch for `git apply`."""
    site.engine.work.changed_by(run, attempt)
    parts: list[bytes] = []
    await site.engine.work.diff(run, attempt, parts.append)
    return StreamingResponse(iter(parts), media_type="text/x-patch; charset=utf-8")


@router.get("/runs/{run}/hunks", responses=gives(list[Hunks]))
async def hunks(run: str, site: CurrentSite, _: Reader, attempt: Attempt = None) -> Response:
    """Show the changes of all attempts, or of one, in numbered hunks; `take` of a merge names them: `a.py#1,3`."""
    return answer(await site.engine.merges.hunks(run, attempt))


@router.get("/runs/{run}/compare", responses=gives(Comparison))
async def compare(run: str, site: CurrentSite, _: Reader) -> Response:
    """Compare the attempts of a run, each with its rank."""
    return answer(site.engine.work.compare(run))


@router.post("/runs/{run}/choose", responses=gives(Run), openapi_extra=takes(ChooseBody))
async def choose(run: str, request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Make an attempt the winner of its node, regardless of the ranking."""
    wanted = await body(request, ChooseBody)
    caller.needs(site.engine.inbox.choosing_needs(site.engine.find(run)))
    return answer(await site.engine.work.choose(run, wanted.attempt, caller.by))


@router.get("/runs/{run}/evidence", responses=gives(EvidenceView))
async def evidence(run: str, site: CurrentSite, _: Reader, attempt: Attempt = None) -> Response:
    """Show how a result was checked: its grade and reasons, trees, runs, tests before and after, doubts."""
    return answer(site.engine.work.evidence(run, attempt))


@router.get("/runs/{run}/receipt", responses=gives(Receipt))
async def receipt(run: str, site: CurrentSite, _: Reader, attempt: Attempt = None) -> Response:
    """Show the receipt of a run."""
    return answer(site.engine.work.receipt(run, attempt))


@router.get("/runs/{run}/artifacts", responses=gives(list[Artifact]))
async def list_artifacts(run: str, site: CurrentSite, _: Reader) -> Response:
    """List the named files that a run left."""
    return answer(site.engine.work.artifacts(run))


@router.get("/runs/{run}/artifacts/{name:path}", responses={200: {"content": {"application/octet-stream": {}}}})
async def show_artifact(run: str, name: str, site: CurrentSite, _: Reader) -> Response:
    """Download a named file, by NAME or NODE/NAME; a browser never shows it as a page."""
    artifact, content = site.engine.work.artifact(run, name)
    called = re.sub(r"[^A-Za-z0-9._-]", "_", artifact.path.rpartition("/")[2])
    headers = {"Content-Disposition": f'attachment; filename="{called}"', "X-Content-Type-Options": "nosniff"}
    return Response(content, headers=headers, media_type="application/octet-stream")


# --- keep or take back


@router.post("/runs/{run}/merge/preview", responses=gives(Preview), openapi_extra=takes(MergeBody, required=False))
async def preview(run: str, request: Request, site: CurrentSite, _: Reader) -> Response:
    """Preview a merge; this changes nothing."""
    return answer(
        await site.engine.merges.preview(
            _request(site.engine.find(run), await body(request, MergeBody, required=False))
        )
    )


@router.post(
    "/runs/{run}/merge",
    responses={**gives(Run), **gives(Run, 409, "In conflict: nothing was moved; the run document names the files.")},
    openapi_extra=takes(MergeBody, required=False),
)
async def merge(run: str, request: Request, site: CurrentSite, caller: MergeCaller) -> Response:
    """Merge the work of a run. A conflict moves nothing; the answer is 409 with the run document."""
    name, wanted = site.engine.find(run), await body(request, MergeBody, required=False)
    if wanted.resolve_with is not None:
        caller.needs("run")
    record = await site.engine.merges.merge(_request(name, wanted), _ignore_text)
    return answer(site.engine.show(name), 409 if record.state == "conflict" else 200)


@router.delete("/runs/{run}/merge", responses=gives(Run))
async def abort(run: str, site: CurrentSite, _: MergeCaller) -> Response:
    """Abort a merge with conflicts."""
    return answer(site.engine.merges.abort(run))


@router.post("/runs/{run}/undo", responses=gives(Run))
async def undo(run: str, site: CurrentSite, _: MergeCaller) -> Response:
    """Undo the last merge of a run: restore refs and files exactly."""
    name = site.engine.find(run)
    folder = Path(site.engine.show(name).repo)
    await site.engine.merges.undo(name, folder, _ignore_text)
    return answer(site.engine.show(name))


def _request(run: str, wanted: MergeBody) -> MergeRequest:
    auth.vet_branch(wanted.into)
    auth.vet_paths((*wanted.take, *wanted.resolve))
    return MergeRequest(
        run=run,
        strategy=wanted.strategy,
        into=wanted.into,
        pick=wanted.pick,
        take=tuple(pick_files.parse_pick(path, who) for path, who in wanted.take.items()),
        resolve=tuple(wanted.resolve.items()),
        resolve_with=wanted.resolve_with,
        tries=wanted.tries,
        autostash=wanted.autostash,
        checks=wanted.checks,
    )


def _ignore_text(_: object) -> None:
    """Say nothing: the answer tells it."""
