"""Which agent a task goes to where a user leaves that open: by rules, by what went well here, by what is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from corral import amounts
from corral.model import RoutingRule, TrackRecord
from corral.model.flow import Grade, Task
from corral.rules.flows import strategies
from corral.rules.flows.strategies import Weights
from corral.rules.scope.globs import glob, split

AUTO = "auto"
LEAST = 5  #: attempts before history counts
LEAST_SHARE = 0.5
STANDARD = "claude"
SIMPLE: tuple[Grade, ...] = ("trivial", "simple")
LARGE: tuple[Grade, ...] = ("complex", "architectural")


MODELS: dict[str, dict[Grade, str]] = {
    STANDARD: {"architectural": "opus", "complex": "opus", "moderate": "sonnet", "simple": "haiku", "trivial": "haiku"}
}  #: by how much is asked for, where settings name none
MOST_NEXT = 2


class AgentRoute(Struct, frozen=True):
    """An agent as one names it, why this one, and who tries next where it cannot."""

    agent: str
    reason: str
    then: tuple[str, ...] = ()


class Knowledge(Struct, frozen=True, kw_only=True):
    """What a choice rests on."""

    rules: Sequence[RoutingRule] = ()
    history: Sequence[TrackRecord] = ()  #: of tasks of the same type
    free: Sequence[str] = ()  #: agents that cost nothing and are set up
    able: Callable[[str], bool] = lambda _: True  #: whether an agent could start here
    weights: Weights | None = None
    models: Mapping[str, Mapping[Grade, str]] = field(default_factory=dict[str, Mapping[Grade, str]])  #: by agent


def route(task: Task, known: Knowledge) -> AgentRoute:
    """Choose; always the same for the same task and the same knowledge."""
    graded = strategies.score(task, known.weights)
    found = list(_routes(task, known, graded))
    first = found[0]
    others = dict.fromkeys(each.agent for each in found[1:] if each.agent != first.agent and known.able(each.agent))
    return AgentRoute(_with_model(first.agent, known, graded.grade), first.reason, tuple(others)[:MOST_NEXT])


def _with_model(agent: str, known: Knowledge, grade: Grade) -> str:
    """Name the model that fits, where an agent has several and none is said."""
    models = known.models.get(agent) or MODELS.get(agent, {})
    return f"{agent}:{models[grade]}" if ":" not in agent and grade in models else agent


def _routes(task: Task, known: Knowledge, graded: strategies.Score) -> Iterator[AgentRoute]:
    """Yield all that speaks for an agent, the strongest first."""
    for place, rule in enumerate(known.rules, 1):
        if _matches(rule, task, graded.grade) and known.able(rule.agent):
            yield AgentRoute(rule.agent, f"[[routing]] {place}: {rule.reason or _rule_text(rule)}")
    if learned := _learned_route(task, known):
        yield learned
    words = f"{graded.grade}, {graded.points} points"
    if graded.grade in SIMPLE and known.free:
        yield AgentRoute(known.free[0], f"{words}: simple work goes to a free agent")
    if task.type in ("documentation", "test") and known.able("gemini"):
        yield AgentRoute("gemini", f"{task.type}: documents, research and test cases are its strength")
    if graded.grade in LARGE and len(task.files) > 1 and known.able("auto-claude"):
        yield AgentRoute("auto-claude", f"{words}, {len(task.files)} files: work that spans many files")
    yield AgentRoute(STANDARD, f"{words}: nothing speaks for another one")


def _matches(rule: RoutingRule, task: Task, grade: Grade) -> bool:
    said = set(re.findall(r"\w+", task.prompt.lower()))
    return (
        (not rule.type or task.type in rule.type)
        and (not rule.grade or grade in rule.grade)
        and (not rule.role or task.role in rule.role)
        and (not rule.words or any(word.lower() in said for word in rule.words))
        and (not rule.files or any(_fits(pattern, file) for pattern in rule.files for file in task.files))
    )


def _fits(pattern: str, path: str) -> bool:
    found = glob(pattern)
    states = found.start()
    for name in split(path):
        states = found.step(states, name)
    return found.fits(states)


def _rule_text(rule: RoutingRule) -> str:
    parts = (
        ("type", rule.type),
        ("grade", rule.grade),
        ("role", rule.role),
        ("words", rule.words),
        ("files", rule.files),
    )
    return ", ".join(f"{name} {'|'.join(values)}" for name, values in parts if values) or "always"


def _learned_route(task: Task, known: Knowledge) -> AgentRoute | None:
    """Return who did such tasks best, where enough is known: the surest, then the cheapest."""
    proven = [
        each
        for each in known.history
        if each.count >= LEAST and each.done / each.count > LEAST_SHARE and known.able(each.agent)
    ]
    if not proven:
        return None
    best = min(proven, key=lambda each: (-each.done / each.count, each.usd is None, each.usd or 0.0, each.agent))
    cost = "" if best.usd is None else f", {amounts.usd(best.usd)} each"
    kind = f"{task.type} tasks" if task.type else "tasks"
    return AgentRoute(best.agent, f"of {kind} here it did {best.done / best.count:.0%} (n = {best.count}{cost})")
