"""Flows: read by name, and checked before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.planning.build_flow import named_flow
from corral.frontends.web import auth
from corral.frontends.web.api.bodies import FlowBody
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Reader
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model import Request as RunRequest
from corral.model.errors import BadFlow

router = APIRouter(tags=["flows"])


class FlowCheck(Struct, frozen=True, kw_only=True):
    """What is wrong with a flow, each mistake with its line and column; or what its nodes are."""

    ok: bool
    name: str = ""
    nodes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


class NamedFlow(Struct, frozen=True, kw_only=True):
    name: str
    flow: str  #: its text, for `flow` of `POST /runs`


@router.get("/flows/{name}", responses=gives(NamedFlow))
async def show_flow(
    name: Annotated[str, PathParameter(max_length=200)],
    site: CurrentSite,
    _: Reader,
    repo: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Show the text of a flow by its name: a file in `.corral/flows` of a repository, or a built-in flow."""
    folder = Path(auth.vet_repository(repo, site.settings.roots))
    return answer(NamedFlow(name=name, flow=named_flow(name, folder)))


@router.post("/flows/check", responses=gives(FlowCheck), openapi_extra=takes(FlowBody))
async def check(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Report all mistakes in a flow; this starts nothing, and inputs need no value."""
    wanted, roots = await body(request, FlowBody), site.settings.roots
    repo = auth.vet_repository(wanted.repo, roots)
    if not wanted.repo and not auth.is_repository(Path(repo)):
        repo = next(iter(auth.repositories_below(roots)), repo)  # nothing starts: any will do
    asked = RunRequest(flow=wanted.flow, repo=repo, inputs=wanted.inputs, agents=wanted.agents, draft=True)
    try:
        found = (await site.engine.requests.prepare(auth.vet_request(asked, caller, roots))).plan.flow
    except BadFlow as bad:
        return answer(FlowCheck(ok=False, mistakes=tuple(str(bad).splitlines())))
    return answer(FlowCheck(ok=True, name=found.name, nodes=tuple(node.id for node in found.nodes)))
