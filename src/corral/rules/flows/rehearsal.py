"""Play a flow through without agents: every one of them ends well with an output that fits. Nothing is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from corral.flow import Flow
from corral.model import Attempt, AttemptRecord, RetryPolicy
from corral.rules.actions import Ask, Finish, Land, Settle
from corral.rules.lanes import Begin
from corral.rules.schedule import Schedule

MOST_STEPS = 100_000


class Step(Struct, frozen=True):
    """What would happen to one node."""

    wave: int  #: nodes of one wave may be at work together
    node: str
    agent: str | None
    words: str = ""


class Rehearsal(Struct, frozen=True):
    steps: tuple[Step, ...]
    status: str


def rehearse(flow: Flow) -> Rehearsal:
    """Return what would start after what, if all went well and every agent said the first thing it may say."""
    schedule = Schedule(flow, RetryPolicy())
    schedule.load((), ())
    steps: list[Step] = []
    for wave in range(1, MOST_STEPS):
        records: list[AttemptRecord] = []
        for action in schedule.decide(0.0):
            match action:
                case Begin():
                    attempt = Attempt(
                        id=f"try-{len(steps)}", agent=action.agent.name, number=action.number, status="done"
                    )
                    attempt.output = sample(schedule.nodes[action.node].output)
                    records.append(
                        AttemptRecord(attempt=attempt, run="", node=action.node, phase="over", lane=action.lane)
                    )
                    steps.append(Step(wave, action.node, str(action.agent), ""))
                case Ask(node=node):
                    steps.append(Step(wave, node, None, "asks a person"))
                    schedule.ended(Settle(node, "done", why="yes"))
                case Land(node=node):
                    steps.append(Step(wave, node, None, "merges"))
                    schedule.ended(Settle(node, "done"))
                case Settle(node=node, status=status, reason=reason) if status != "done":
                    steps.append(Step(wave, node, None, f"{status}: {reason}"))
                case Finish(status=status):
                    return Rehearsal(tuple(steps), status)
                case _:
                    pass
        for record in records:
            schedule.heard(record, driven=True)
        for record in records:
            schedule.heard(record, driven=False)
    return Rehearsal(tuple(steps), "it does not end")


def sample(schema: Mapping[str, Any] | None) -> Any:
    """Return the plainest value that fits a schema; a list has one item."""
    if schema is None:
        return ""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return cast("Sequence[Any]", schema["enum"])[0]
    kind = schema.get("type", "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            fields = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
            return {name: sample(inner) for name, inner in fields.items()}
        case "array":
            return [sample(schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "..."
