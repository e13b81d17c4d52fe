"""Flows: checked before anything is started."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web import policy
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


@router.post("/flows/check", responses=gives(FlowCheck), openapi_extra=takes(FlowBody))
async def check(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Report all mistakes in a flow; this starts nothing, and inputs need no value."""
    wanted, roots = await body(request, FlowBody), site.settings.roots
    repo = policy.repository(wanted.repo, roots)
    asked = RunRequest(flow=wanted.flow, repo=repo, inputs=wanted.inputs, agents=wanted.agents, draft=True)
    try:
        found = (await site.engine.requests.prepare(policy.request(asked, caller, roots))).plan.flow
    except BadFlow as bad:
        return answer(FlowCheck(ok=False, mistakes=tuple(str(bad).splitlines())))
    return answer(FlowCheck(ok=True, name=found.name, nodes=tuple(node.id for node in found.nodes)))
