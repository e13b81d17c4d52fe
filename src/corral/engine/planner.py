"""The planner: an agent writes a flow for a task, the engine checks it and sends its mistakes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
import yaml
from msgspec import Struct, field, structs

from corral.attempt import briefing
from corral.engine.budget.money import Estimate, Money
from corral.engine.context import Context, Say
from corral.engine.planning.requests import Requests
from corral.engine.views import flow_pictures
from corral.model import ENCODER, Request, Run, RunPlan
from corral.model.errors import BadFlow, BadRequest, CorralError
from corral.model.events import Listener
from corral.model.flow import Flow

Parallelism = Literal["sequential", "balanced", "maximal"]
MOST_TRIES = 3  #: the first, and two more with the mistakes of the one before
MOST_NODES, NODES = 50, 12
MOST_DEPTH = 20
MOST_REASON = 500
MOST_MISTAKES = 30  #: sent back at once
MOST_FLOW = 256 << 10
APPROVAL = "24h"
MEANT: dict[Parallelism, str] = {
    "sequential": "one node after another: each needs the one before it",
    "balanced": "side by side what does not touch the same files, one after another what does",
    "maximal": "as many nodes side by side as possible",
}
PROMPT = """You plan work; you do not do it. Study this repository, change nothing, and write a flow: a graph of
nodes that other agents carry out, each in a private copy of the repository that starts from the work of the nodes
that it needs.

The task:

{task}

Rules of the plan:
- At most {most} nodes, at most {depth} of them one after another. Fewer is better: one node is fine for a small task.
- Parallelism: {parallelism}.
- A node is `{{"task": "...", "needs": ["other"], "role": "...", "checks": ["..."], "agent": "..."}}`. Its agent
  knows only the text of its task and the files: say what is to be done, in which files, and how one will know that it
  works.
- A node may instead be `{{"run": "COMMAND"}}` or `{{"gate": "a question to the user"}}`. Do not merge: the user does.
- `checks` are commands that must succeed after the node. `share` is the percentage of the budget that a node may spend.
- Node names: letters, digits, dashes. Agents: {agents}. Leave `agent` out to use the default one. Roles: {roles}.

End with one JSON value and nothing after it:

{{"flow": {{"name": "...", "nodes": {{"first": {{"task": "..."}}, "second": {{"task": "...", "needs": ["first"]}}}}}},
 "reasons": {{"first": "why this node", "second": "..."}}, "confidence": 0.8, "warnings": ["what may go wrong"]}}
"""
AGAIN = """
Your last plan was:

{flow}

Corral refused it. Write the whole plan again without these mistakes:

{mistakes}
"""
SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "flow": {"type": "object"},
        "reasons": {"type": "object"},
        "confidence": {"type": "number"},
        "warnings": {"type": "array"},
    },
    "required": ["flow"],
}
KINDS = ("task", "run", "gate")


class PlanOrder(Struct, frozen=True, kw_only=True):
    """What is to be planned, and within which limits."""

    task: str
    repo: str = "."
    agent: str | None = None
    most: int = NODES
    parallelism: Parallelism = "balanced"
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
        first = self._prompt(order)
        prompt, runs, spent = first, list[str](), 0.0
        mistakes: list[str] = []
        for number in range(1, MOST_TRIES + 1):
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
            listed = "\n".join(f"- {each}" for each in mistakes[:MOST_MISTAKES])
            prompt = first + AGAIN.format(flow=shown, mistakes=listed)
        words = "\n".join(mistakes[:MOST_MISTAKES])
        raise PlanFailed(f"the plan is still wrong after {MOST_TRIES} tries:\n{words}", hint=f"corral show {runs[-1]}")

    def request(self, planned: PlannedFlow, order: PlanOrder, *, yes: bool) -> Request:
        """Return the request that runs a plan, after one approval unless the user gave it."""
        waves = " -> ".join(" | ".join(wave) for wave in planned.waves)
        cost = planned.estimate.usd if planned.estimate else None
        about = f"about ${cost:.2f}" if cost is not None else "cost unknown"
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

    def _prompt(self, order: PlanOrder) -> str:
        repo = self._requests.folder(order.repo)
        settings = self._context.settings.load(repo)
        agents = sorted({*settings.agents, *filter(None, [settings.defaults.agent])}) or ["the default one"]
        return PROMPT.format(
            task=order.task,
            most=order.most,
            depth=MOST_DEPTH,
            parallelism=MEANT[order.parallelism],
            agents=", ".join(agents),
            roles=", ".join(sorted(briefing.role_names(repo))),
        )

    def _request(self, order: PlanOrder, prompt: str) -> Request:
        return Request(
            prompt=prompt,
            repo=order.repo,
            agents=(order.agent,) if order.agent else (),
            strategy="single",
            read_only=True,
            no_checks=True,
            output=ENCODER.encode(SHAPE).decode(),
            name=" ".join(f"plan: {order.task}".split())[:80],
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
        if wrong := _misfits(flow, order.most):
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
        waves = _waves(plan.flow)
        if len(waves) > MOST_DEPTH:
            return None, None, [f"{len(waves)} nodes come one after another; {MOST_DEPTH} are the most"]
        drawn = list(flow_pictures.text(plan.flow))
        return structs.replace(planned, waves=waves, graph=drawn), plan, []


def _output(run: Run) -> Mapping[str, Any]:
    found = next((each.output for node in run.nodes for each in node.attempts if each.id == node.winner), None)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _misfits(flow: object, most: int) -> list[str]:
    """Return what no flow of a planner may be, before anything of it is read."""
    if not isinstance(flow, dict):
        return ["`flow` is no table"]
    table = cast("dict[str, Any]", flow)
    if len(ENCODER.encode(table)) > MOST_FLOW:
        return [f"the flow has more than {MOST_FLOW >> 10} kB"]
    nodes = table.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        return ["`flow.nodes` is no table of nodes"]
    named = cast("dict[str, Any]", nodes)
    if len(named) > most:
        return [f"the flow has {len(named)} nodes; {most} are the most"]
    found: list[str] = []
    for name, node in named.items():
        kinds = [kind for kind in KINDS if isinstance(node, dict) and kind in node]
        if len(kinds) != 1:
            found.append(f"the node `{name[:80]}` is none or several of: {', '.join(KINDS)}")
    return found


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


def _waves(flow: Flow) -> list[list[str]]:
    """Return the nodes by how many come before each."""
    depth: dict[str, int] = {}
    left = list(flow.nodes)
    while left:
        ready = [node for node in left if all(edge.node in depth for edge in node.needs)]
        if not ready:
            break  # a circle: the reader has refused it
        for node in ready:
            depth[node.id] = 1 + max((depth[edge.node] for edge in node.needs), default=0)
        left = [node for node in left if node.id not in depth]
    return [
        [name for name, at in depth.items() if at == level] for level in range(1, max(depth.values(), default=0) + 1)
    ]


def shown_plan(planned: PlannedFlow) -> dict[str, Any]:
    """Return what every surface shows of a plan."""
    return cast("dict[str, Any]", msgspec.to_builtins(planned))
