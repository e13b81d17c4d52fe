"""What happens next: a pure function of what is stored, so that resuming is not a special case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from corral.model import OPEN, Attempt, AttemptRecord, Flow, Node, NodeState, RetryPolicy, Status
from corral.rules import retry


class Begin(Struct, frozen=True):
    """Start a new attempt of a node."""

    node: str
    number: int = 1
    retry_of: str | None = None


class GoOn(Struct, frozen=True):
    """Take up an attempt that nobody drives any more."""

    attempt: str


class Settle(Struct, frozen=True):
    """A node has reached its end."""

    node: str
    status: Status
    reason: str | None = None
    winner: str | None = None
    why: str | None = None


class WaitUntil(Struct, frozen=True):
    time: float


class Finish(Struct, frozen=True):
    """The run has reached its end."""

    status: Status
    reason: str | None = None


Action = Begin | GoOn | Settle | WaitUntil | Finish


class Situation(Struct, frozen=True, kw_only=True):
    """Everything `decide` looks at."""

    flow: Flow
    nodes: Sequence[NodeState]
    attempts: Sequence[AttemptRecord]
    driven: frozenset[str]  #: attempts this engine is carrying out right now
    retry: RetryPolicy
    stopping: str | None = None  #: why, once somebody said stop
    now: float = 0.0


def decide(situation: Situation) -> list[Action]:
    """Return what to do now; an empty list means: wait for what is being driven."""
    states = {node.id: node for node in situation.nodes}
    actions: list[Action] = []
    for node in situation.flow.nodes:
        if states[node.id].status in OPEN:
            actions += _node(node, states, situation)
    if not actions and all(node.status not in OPEN for node in situation.nodes):
        return [_finish(situation)]
    return actions


def _node(node: Node, states: Mapping[str, NodeState], situation: Situation) -> list[Action]:
    needs = [states[need] for need in node.needs]
    tries = [record for record in situation.attempts if record.node == node.id]
    if tries and tries[-1].phase != "over":
        last = tries[-1].attempt.id
        return [] if last in situation.driven else [GoOn(last)]
    if any(need.status in OPEN for need in needs):
        return []
    broken = [need.id for need in needs if need.status != "done"]
    if broken:
        return [Settle(node.id, "skipped", f"`{broken[0]}` is {states[broken[0]].status}")]
    if not tries:
        return [Settle(node.id, "stopped", situation.stopping)] if situation.stopping else [Begin(node.id)]
    return _after(node, [record.attempt for record in tries], tries[-1].ended or 0.0, situation)


def _after(node: Node, tries: Sequence[Attempt], ended: float, situation: Situation) -> list[Action]:
    last = tries[-1]
    if last.status == "done":
        return [Settle(node.id, "done", winner=last.id, why=_why(last))]
    if situation.stopping:
        return [Settle(node.id, "stopped", situation.stopping)]
    own = [attempt for attempt in tries if not lost(attempt)]
    delay = 0.0 if lost(last) else retry.delay_seconds(own, situation.retry, node.task.retries)
    if delay is None:
        return [Settle(node.id, last.status, reason(last))]
    if node.task.budget_usd is not None and sum(each.cost.usd or 0.0 for each in tries) >= node.task.budget_usd:
        return [Settle(node.id, "over_budget", f"the budget of ${node.task.budget_usd:g} is used up")]
    if ended + delay > situation.now:
        return [WaitUntil(ended + delay)]
    return [Begin(node.id, last.number + (not lost(last)), last.id)]


def lost(attempt: Attempt) -> bool:
    """Tell whether the engine died under it: that is our failure, and uses up no try."""
    return attempt.status == "stopped" and attempt.error is not None


def reason(attempt: Attempt) -> str:
    """Say in one line why an attempt is not done."""
    if attempt.error and attempt.status == "failed":
        return f"{attempt.error.kind}: {attempt.error.message}"
    return attempt.error.message if attempt.error else attempt.status.replace("_", " ")


def _why(attempt: Attempt) -> str:
    count = len(attempt.checks)
    checks = "all checks pass" if count > 1 else "its check passes" if count else "no check was asked for"
    changed = len(attempt.files_changed)
    return f"{checks}; {changed or 'no'} file{'' if changed == 1 else 's'} changed"


def _finish(situation: Situation) -> Finish:
    statuses = [node.status for node in situation.nodes]
    reasons = [node.reason for node in situation.nodes if node.status != "done" and node.reason]
    why = reasons[0] if reasons else None
    for status in ("stopped", "over_budget", "limited"):
        if status in statuses:
            return Finish(status, why)
    if all(status == "done" for status in statuses):
        return Finish("done")
    if "done" in statuses:
        return Finish("partial", why)
    return Finish("timed_out" if statuses == ["timed_out"] else "failed", why)
