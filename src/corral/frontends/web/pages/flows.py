"""Flows: an editor that checks as one types and draws what is right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.planner import MOST_NODES, NODES, PlanOrder
from corral.engine.planning.build_flow import template, template_names
from corral.engine.views import flow_pictures
from corral.frontends.web import auth
from corral.frontends.web.api.bodies import Submission
from corral.frontends.web.api.runs import enqueue
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Caller, Reader, Runner, form
from corral.frontends.web.pages import frame
from corral.frontends.web.pages.new import amount, chosen_repository, known_repositories
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request as RunRequest
from corral.model.errors import BadFlow, CorralError

router = APIRouter()
MOST_TEXT = 512 << 10
PLACE = re.compile(r"(?s)[^:\n]*:(\d+):(\d+): (.*?)(?: \(hint: (.*)\))?")


class FlowMistakeView(Struct, frozen=True, kw_only=True):
    """What is wrong, and where in the text."""

    line: int
    column: int
    message: str
    hint: str


@router.get("/flows")
async def editor(
    request: Request,
    site: CurrentSite,
    caller: Reader,
    begin: Annotated[str, Query(max_length=100)] = "feature",
    plan: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    known = template_names()
    chosen = begin if begin in known else known[0]
    about = {name: template(name).partition("\n")[0].lstrip("# ") for name in known}
    planning, places = site.running_plans.of(plan), known_repositories(site)
    text = template(chosen) if planning is None else planning.found.text if planning.found else "# no plan yet\n"
    repo = planning.order.repo if planning else next(iter(places), "")
    return frame.show(
        request, caller, "flows.html", about=about, chosen=chosen, text=text, roots=site.settings.roots,
        places=list(dict.fromkeys([*places, *([repo] if repo else [])])), repo=repo, plan=planning, name=plan,
    )  # fmt: skip


@router.post("/flows/plan")
async def plan(request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Start an agent that writes a flow, and show how far it is."""
    given, roots = await form(request), site.settings.roots
    most = given.get("most", "").strip() or str(NODES)
    if not most.isdecimal() or len(most) > 4 or not 1 <= int(most) <= MOST_NODES:
        raise RefusedRequest(422, "invalid", f"most nodes: a number from 1 to {MOST_NODES}")
    order = PlanOrder(
        task=given.get("task", "").strip(),
        repo=auth.vet_repository(chosen_repository(given), roots),
        agent=given.get("agent", "").strip() or None,
        most=int(most),
        budget_usd=amount(given.get("budget", "").strip()),
    )
    if not order.task:
        raise RefusedRequest(422, "invalid", "the task is empty", hint="say what is to be done")
    return frame.go_to(
        f"/flows?plan={site.running_plans.begin(order, lambda asked: auth.vet_request(asked, caller, roots))}"
    )


@router.get("/flows/plans/{name}")
async def planning(request: Request, name: str, site: CurrentSite, caller: Reader) -> Response:
    """Show how far a plan is; open the editor when it is there."""
    found = site.running_plans.of(name)
    if found is None or found.found:
        return frame.go_to(f"/flows?plan={name}" if found else "/flows")
    return frame.show(request, caller, "_plan.html", plan=found, name=name)


@router.post("/flows/check")
async def check(request: Request, site: CurrentSite, caller: Reader) -> Response:
    """Say what is wrong with a text, all at once; or draw it, with what it may cost."""
    given = await form(request)
    text = given.get("flow", "")[:MOST_TEXT]
    mistakes: list[FlowMistakeView] = []
    trouble, values = "", dict[str, object]()
    try:
        values = await _flow_preview(site, caller, text, given)
    except BadFlow as error:
        mistakes = [_mistake(line) for line in str(error).splitlines()]
    except CorralError as error:
        trouble = f"{error}" + (f" (hint: {error.hint})" if error.hint else "")
    drawn: dict[str, object] = {"nodes": [], "picture": "", "estimate": [], "inputs": {}, **values}
    return frame.show(request, caller, "_flow.html", mistakes=mistakes, trouble=trouble, **drawn)


@router.post("/flows/run")
async def run(request: Request, site: CurrentSite, caller: Runner) -> Response:
    """Carry a flow out, and open its screen."""
    given = await form(request)
    text, planning = given.get("flow", ""), site.running_plans.of(given.get("plan", ""))
    agent = planning.order.agent if planning else None
    wanted = Submission(
        flow=text,
        repo=chosen_repository(given),
        inputs=_inputs(given),
        agents=(agent,) if agent else (),
        planned=bool(planning and planning.found and _lines(text) == _lines(planning.found.text)),
    )
    name, _ = await enqueue(site, caller, wanted)
    return frame.go_to(f"/runs/{name}")


async def _flow_preview(site: Site, caller: Caller, text: str, given: dict[str, str]) -> dict[str, object]:
    roots = site.settings.roots
    asked = RunRequest(flow=text, repo=auth.vet_repository(chosen_repository(given), roots), draft=True)
    plan = (await site.engine.requests.prepare(auth.vet_request(asked, caller, roots))).plan
    return {
        "nodes": plan.flow.nodes,
        "picture": flow_pictures.svg(plan.flow),
        "inputs": _input_defaults(plan.flow.inputs),
        "estimate": site.engine.money.estimate(plan).lines(),
    }


def _input_defaults(inputs: Mapping[str, object]) -> dict[str, str]:
    """Return the inputs of the flow itself with their defaults; a draft names what has none as `<name>`."""
    own = {name: value for name, value in inputs.items() if "/" not in name}
    return {name: "" if value == f"<{name}>" else str(value) for name, value in own.items()}


def _lines(text: str) -> list[str]:
    """Return the lines of a text, which browsers end in their own way."""
    return text.strip().splitlines()


def _inputs(given: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("input."): value for name, value in given.items() if name.startswith("input.") and value}


def _mistake(line: str) -> FlowMistakeView:
    found = PLACE.fullmatch(line)
    if not found:
        return FlowMistakeView(line=1, column=1, message=line, hint="")
    return FlowMistakeView(line=int(found[1]), column=int(found[2]), message=found[3], hint=found[4] or "")
