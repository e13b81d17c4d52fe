"""The planner: an agent writes a flow for a task, the engine checks it and sends its mistakes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml
from msgspec import Struct, field, structs

from corral import amounts
from corral.attempt import briefing
from corral.engine.budget.money import Estimate, Money
from corral.engine.context import Context, Say
from corral.engine.planning.requests import Requests
from corral.engine.views import flow_pictures
from corral.engine.views.history import run_page_of
from corral.model import ENCODER, Request, Run, RunPlan, Status
from corral.model.errors import BadFlow, BadRequest, CorralError
from corral.model.events import Listener
from corral.model.flow import Grade, Parallelism, PlanSpec
from corral.model.server import RunFilter
from corral.rules.flows import planned_flow, reader
from corral.rules.flows.planned_flow import MOST_FAILURES, planning_hints
from corral.world.git import discovery
from corral.world.git.discovery import git_dir_of

MOST_NODES, NODES = reader.MOST_PLANNED, PlanSpec().most
MOST_REASON = 500
PLANNED = "plan: "  #: what the names of runs begin with in which a planner works
FAILED: tuple[Status, ...] = ("failed", "timed_out", "over_budget")
APPROVAL = "24h"
AGAIN = """
Your last plan was:

{flow}

Corral refused it. Write the whole plan again without these mistakes:

{mistakes}
"""


class PlanOrder(Struct, frozen=True, kw_only=True):
    """What is to be planned, and within which limits."""

    task: str
    repo: str = "."
    agent: str | None = None
    most: int = NODES
    parallelism: Parallelism = "balanced"
    complexity: Grade | None = None  #: of the task, as the user sees it
    roles: tuple[str, ...] = ()  #: that the plan is to use
    budget_usd: float | None = None  #: of the flow
    trust: bool = False


class PlannedFlow(Struct, frozen=True, kw_only=True):
    """What a planner wrote and the engine accepted."""

    flow: dict[str, Any]
    text: str  #: the same, as a flow file
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    confidence: float | None = None
    warnings: tuple[str, ...] = ()
    waves: list[list[str]] = field(default_factory=list[list[str]])
    graph: list[str] = field(default_factory=list[str])
    estimate: Estimate | None = None
    runs: list[str] = field(default_factory=list[str])  #: of the planner, one for each try
    cost_usd: float | None = None  #: of planning


class PlanFailed(CorralError):
    """No plan that can run came of it."""


class Planner:
    """Has flows written and checks them."""

    def __init__(
        self,
        context: Context,
        requests: Requests,
        money: Money,
        drive: Callable[[str, Listener], Awaitable[Run]],
    ) -> None:
        self._context, self._requests, self._money, self._drive = context, requests, money, drive

    async def plan(
        self, order: PlanOrder, listen: Listener, say: Say, vet: Callable[[Request], Request] = lambda asked: asked
    ) -> PlannedFlow:
        """Return a flow that can run; PlanFailed, with the mistakes of the last, if there is none after three tries."""
        if not order.task.strip():
            raise BadRequest("the task is empty", hint='say what is to be done: corral plan "move to the new API"')
        first = await self._prompt(order)
        prompt, runs, spent = first, list[str](), 0.0
        mistakes: list[str] = []
        for number in range(1, planned_flow.MOST_TRIES + 1):
            run = await self._write(vet(self._request(order, prompt)), listen, say)
            runs.append(run.run)
            spent += run.cost.usd or 0.0
            said = _output(run)
            planned, plan, mistakes = await self._check(said, order)
            if planned is not None and plan is not None:
                estimate = self._money.estimate(plan)
                return structs.replace(planned, runs=runs, cost_usd=round(spent, 6), estimate=estimate)
            say(f"try {number} of the plan has {len(mistakes)} mistakes: {mistakes[0]}")
            shown = ENCODER.encode(said.get("flow")).decode()[:20_000]
            listed = "\n".join(f"- {each}" for each in mistakes[: planned_flow.MOST_MISTAKES])
            prompt = first + AGAIN.format(flow=shown, mistakes=listed)
        words = "\n".join(mistakes[: planned_flow.MOST_MISTAKES])
        raise PlanFailed(
            f"the plan is still wrong after {planned_flow.MOST_TRIES} tries:\n{words}", hint=f"corral show {runs[-1]}"
        )

    def request(self, planned: PlannedFlow, order: PlanOrder, *, yes: bool) -> Request:
        """Return the request that runs a plan, after one approval unless the user gave it."""
        waves = " -> ".join(" | ".join(wave) for wave in planned.waves)
        cost = planned.estimate.usd if planned.estimate else None
        about = f"about {amounts.usd(cost)}" if cost is not None else "cost unknown"
        question = f"Run this plan? {len(planned.flow['nodes'])} nodes, {about}: {waves}"
        return Request(
            flow=planned.text,
            flow_file=None,
            repo=order.repo,
            agents=(order.agent,) if order.agent else (),
            budget_usd=order.budget_usd,
            approve=None if yes else APPROVAL,
            question=None if yes else question,
            planned=True,
            trust=order.trust,
        )

    async def _prompt(self, order: PlanOrder) -> str:
        repo = self._requests.folder(order.repo)
        settings = self._context.settings.load(repo)
        agents = sorted({*settings.agents, *filter(None, [settings.defaults.agent])}) or ["the default one"]
        roles = tuple(sorted(briefing.role_names(repo)))
        spec = PlanSpec(most=order.most, parallelism=order.parallelism, agents=tuple(agents), roles=roles)
        if unknown := next((name for name in order.roles if name not in roles), None):
            raise BadRequest(f"no role is called `{unknown[:80]}`", hint=f"known: {', '.join(roles)}")
        hints = planning_hints(self._requests.track_records(None), self._failures(repo), await _file_sizes(repo))
        return f"{planned_flow.planner_rules(spec)}\n{_wishes(order)}{hints}\nThe task:\n\n{order.task}\n"

    def _failures(self, repo: Path) -> list[tuple[str, str]]:
        """Return the last runs in this repository that failed, by the user's own words for them."""
        git_dir = git_dir_of(repo)
        wanted = RunFilter(
            most=2 * MOST_FAILURES, statuses=FAILED, top_level=True,
            git_dir=git_dir and str(git_dir), repo=None if git_dir else str(repo.resolve()),
        )  # fmt: skip
        found = run_page_of(self._context.store, wanted)
        return [(each.title, each.status) for each in found if not each.title.startswith(PLANNED)]

    def _request(self, order: PlanOrder, prompt: str) -> Request:
        return Request(
            prompt=prompt,
            repo=order.repo,
            agents=(order.agent,) if order.agent else (),
            strategy="single",
            read_only=True,
            no_checks=True,
            output=ENCODER.encode(reader.PLAN_SHAPE).decode(),
            name=" ".join(f"{PLANNED}{order.task}".split())[:80],
            trust=order.trust,
        )

    async def _write(self, request: Request, listen: Listener, say: Say) -> Run:
        run = await self._drive(await self._requests.submit(request, say), listen)
        if run.status != "done":
            errors = [each.error for node in run.nodes for each in node.attempts if each.error]
            words = f": {errors[-1].message}" if errors else f": {run.reason}" if run.reason else ""
            raise PlanFailed(f"the planner is {run.status}{words}", hint=f"corral show {run.run}")
        return run

    async def _check(
        self, said: Mapping[str, Any], order: PlanOrder
    ) -> tuple[PlannedFlow | None, RunPlan | None, list[str]]:
        """Hold a plan against our limits, then against the reader of flow files."""
        flow = said.get("flow")
        if wrong := planned_flow.misfits(flow, order.most):
            return None, None, wrong
        flow = _with_limits(cast("dict[str, Any]", flow), order)
        text = yaml.safe_dump(flow, sort_keys=False, allow_unicode=True, width=100)
        planned = PlannedFlow(flow=flow, text=text, **_words(said, [*flow["nodes"]]))
        request = structs.replace(self.request(planned, order, yes=True), flow_file="plan.yaml")
        try:
            plan = (await self._requests.prepare(request)).plan
        except BadFlow as bad:
            return None, None, [str(each) for each in bad.mistakes]
        except BadRequest as bad:
            return None, None, [f"{bad} ({bad.hint})" if bad.hint else str(bad)]
        waves = planned_flow.waves(plan.flow.nodes)
        if len(waves) > planned_flow.MOST_DEPTH:
            return None, None, [f"{len(waves)} nodes come one after another; {planned_flow.MOST_DEPTH} are the most"]
        drawn = list(flow_pictures.text(plan.flow))
        return structs.replace(planned, waves=waves, graph=drawn), plan, []


def _wishes(order: PlanOrder) -> str:
    """Return what the user says about the plan, for its planner."""
    lines = [f"- The user calls this task {order.complexity}."] if order.complexity else []
    lines += [f"- Use these roles in the plan: {', '.join(order.roles)}."] if order.roles else []
    lines += [f"- The budget of the flow is {amounts.usd(order.budget_usd)}."] if order.budget_usd is not None else []
    return "".join(f"{line}\n" for line in [*lines, *([""] if lines else [])])


async def _file_sizes(repo: Path) -> list[tuple[str, int]]:
    """Return the committed files of a repository with their bytes; none where there is no commit."""
    found = await discovery.discover(repo)
    if found is None or found.head is None:
        return []
    listed = await found.repository.git("ls-tree", "-r", "-l", "-z", "--full-tree", found.head)
    sizes: list[tuple[str, int]] = []
    for row in listed.out.decode(errors="replace").split("\0"):
        about, _, path = row.partition("\t")
        size = about.rpartition(" ")[2]
        sizes += [(path, int(size))] if path and size.isdecimal() else []
    return sizes


def _output(run: Run) -> Mapping[str, Any]:
    found = next((each.output for node in run.nodes for each in node.attempts if each.id == node.winner), None)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _with_limits(flow: dict[str, Any], order: PlanOrder) -> dict[str, Any]:
    """Return a flow with the limits of its order, whatever it said itself."""
    made = {"name": "plan", **flow}
    if order.budget_usd is not None:
        made["budget"] = {"usd": order.budget_usd}
    if order.parallelism == "sequential":
        made["parallel"] = 1
    return made


def _words(said: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return what a planner says about its plan: for users alone, short, and never part of another prompt."""
    given = said.get("reasons")
    reasons = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    warned = said.get("warnings")
    warnings = [str(each)[:MOST_REASON] for each in cast("list[Any]", warned)[:20]] if isinstance(warned, list) else []
    sure = said.get("confidence")
    strangers = len([name for name in reasons if name not in nodes])
    warnings += [f"{strangers} reasons are about nodes that do not exist"] if strangers else []
    return {
        "reasons": {name: str(reasons[name])[:MOST_REASON] for name in nodes if name in reasons},
        "warnings": tuple(warnings),
        "confidence": min(max(float(sure), 0.0), 1.0) if isinstance(sure, int | float) else None,
    }


def shown_plan(planned: PlannedFlow) -> dict[str, Any]:
    """Return what every surface shows of a plan."""
    return cast("dict[str, Any]", msgspec.to_builtins(planned))
