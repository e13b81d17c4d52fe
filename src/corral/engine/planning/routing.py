"""Put an agent in wherever one is left open, and say why it is this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from msgspec import structs

from corral.config.settings import Config
from corral.machines.resolved_agent import resolve_agent
from corral.model import TrackRecord
from corral.model.agent_api import AgentProfile, AgentTask
from corral.model.errors import BadRequest, CorralError
from corral.model.flow import AgentChoice, Flow, Node, TaskType
from corral.rules.flows import strategies
from corral.rules.flows.routing import AUTO, AgentRoute, Knowledge, route

History = Callable[[TaskType | None], Sequence[TrackRecord]]
Named = Callable[[str], AgentChoice]


def route_agents(flow: Flow, settings: Config, history: History, named: Named) -> Flow:
    """Return the flow with every `auto` replaced."""
    if not any(choice.name == AUTO for node in flow.nodes for choice in _named_by(node)):
        return flow
    if any(choice.name == AUTO for node in flow.nodes for choice in (*node.rivals, *node.fallback)):
        raise BadRequest("`auto` is one agent: no race, and nobody's fallback", hint="name the agents")

    @cache
    def able(name: str) -> bool:
        return _able(name, settings)

    free = [name for name in sorted(settings.agents) if _free(name, settings) and able(name)]
    why: list[str] = [flow.why] if flow.why else []
    nodes: list[Node] = []
    for node in flow.nodes:
        if node.kind == "task" and node.agent.name == AUTO:
            known = Knowledge(
                rules=settings.routing,
                history=tuple(history(node.task.type)),
                free=tuple(free),
                able=able,
                weights=strategies.weights_of(settings.complexity),
                models={name: profile.models for name, profile in settings.agents.items() if profile.models},
            )
            found = route(node.task, known)
            why.append(_words(node, flow, found))
            then = node.fallback or tuple(named(each) for each in found.then)
            nodes.append(structs.replace(node, agent=named(found.agent), fallback=then))
        else:
            nodes.append(node)
    return structs.replace(flow, nodes=tuple(nodes), why="; ".join(why))


def _named_by(node: Node) -> tuple[AgentChoice, ...]:
    return (node.agent, *node.rivals, *node.fallback)


def _words(node: Node, flow: Flow, found: AgentRoute) -> str:
    whom = f" for `{node.id}`" if len(flow.nodes) > 1 else ""
    return f"agent {found.agent}{whom}: {found.reason}"


def _free(name: str, settings: Config) -> bool:
    """Tell whether an agent costs nothing; only those that the user's settings name are asked."""
    try:
        facts = resolve_agent(name, settings).agent.facts
    except CorralError:
        return False
    return facts.local or settings.agents.get(name, AgentProfile()).cost_usd == 0


def _able(text: str, settings: Config) -> bool:
    """Tell whether an agent could be started on this machine."""
    choice = AgentChoice.read(text)
    try:
        resolved = resolve_agent(choice.name, settings, choice.account)
        resolved.resolve(resolved.agent.start(AgentTask(prompt="x", workspace="/", home="/", model=choice.model)))
    except CorralError:
        return False
    return True
