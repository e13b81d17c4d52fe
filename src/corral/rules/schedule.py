"""What happens next: a pure function of what is stored, so that resuming is not a special case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from corral.model import OPEN, AgentChoice, Attempt, AttemptRecord, Flow, Node, NodeState, RetryPolicy, Status
from corral.rules import retry

MOST_WAITS = 3  #: for a quota in one run; then it is parked, and a person says when to go on


class Begin(Struct, frozen=True):
    """Start a new attempt of a node."""

    node: str
    agent: AgentChoice
    number: int = 1
    retry_of: str | None = None
    fallback_of: str | None = None


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


class Park(Struct, frozen=True):
    """A node waits for a person to say how it goes on."""

    node: str
    reason: str


class Finish(Struct, frozen=True):
    """The run has reached its end."""

    status: Status
    reason: str | None = None


Action = Begin | GoOn | Settle | WaitUntil | Park | Finish


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
        return [Settle(node.id, "stopped", situation.stopping)] if situation.stopping else [Begin(node.id, node.agent)]
    return _after(node, tries, situation)


def _after(node: Node, tries: Sequence[AttemptRecord], situation: Situation) -> list[Action]:
    """Decide what follows the last try of a node."""
    last = tries[-1].attempt
    if last.status == "done":
        return [Settle(node.id, "done", winner=last.id, why=_why(last))]
    if situation.stopping:
        return [Settle(node.id, "stopped", situation.stopping)]
    when = _again_at(node, tries, situation)
    if when is None and last.status == "limited" and situation.retry.on_limit == "ask":
        return [Park(node.id, reason(last) + _choices(tries[-1]))]
    successor = None if when is not None else _next_agent(node, tries)
    if when is None and successor is None:
        return [Settle(node.id, last.status, reason(last) + _parked_until(tries[-1]))]
    if not lost(last) and taken(tries, max(when or 0.0, situation.now)) > situation.retry.total_seconds:
        over = f"; not tried again: [retry] total_seconds ({situation.retry.total_seconds:.0f}) are over"
        return [Settle(node.id, last.status, reason(last) + over)]
    if _spent_up(node, tries):
        return [Settle(node.id, "over_budget", f"the budget of ${node.task.budget_usd:g} is used up")]
    if successor:
        return [Begin(node.id, successor, fallback_of=last.id)]
    if when is not None and when > situation.now:
        return [WaitUntil(when)]
    same = lost(last) or last.status == "limited"  # neither used up a try
    return [
        Begin(node.id, AgentChoice(last.agent, _asked_model(node, last)), last.number + (not same), retry_of=last.id)
    ]


def _parked_until(record: AttemptRecord) -> str:
    if record.attempt.status != "limited" or record.until is None:
        return ""
    return "; parked until " + _moment(record.until)


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def _choices(record: AttemptRecord) -> str:
    back = _moment(record.until) if record.until else "a time it does not say"
    return f"; its quota is back at {back}. Then, or with another key now: corral resume; to give up: corral stop"


def taken(tries: Sequence[AttemptRecord], now: float) -> float:
    """Return how long the tries of a node and the waits between them took, without the time nobody drove it."""
    total = 0.0
    for record, following in zip(tries, [*(each.started for each in tries[1:]), now], strict=True):
        ended = record.ended or record.started
        total += ended - record.started
        if not lost(record.attempt) and record.until != 0.0:  # 0: a person woke it up
            total += max(0.0, following - ended)
    return total


def _again_at(node: Node, tries: Sequence[AttemptRecord], situation: Situation) -> float | None:
    """Return when the same agent may try again, or None when it may not."""
    record, policy = tries[-1], situation.retry
    last, ended = record.attempt, record.ended or 0.0
    if lost(last):
        return ended
    if last.status == "limited" and record.until is not None:
        waits = sum(1 for each in tries if each.attempt.status == "limited" and each.until != 0.0)
        if record.until <= situation.now and waits <= MOST_WAITS:
            return record.until
        soon = record.until - situation.now <= policy.max_wait_seconds
        return record.until if policy.on_limit == "wait" and soon and waits <= MOST_WAITS else None
    own = [each.attempt for each in tries if each.attempt.agent == last.agent and not lost(each.attempt)]
    delay = retry.delay_seconds([each for each in own if each.status != "limited"] or own, policy, node.task.retries)
    return None if delay is None else ended + delay


def _next_agent(node: Node, tries: Sequence[AttemptRecord]) -> AgentChoice | None:
    """Return who tries next when an agent cannot: the first named that has not tried yet."""
    last = tries[-1].attempt
    if last.status not in ("failed", "timed_out", "limited"):
        return None
    tried = {record.attempt.agent for record in tries}
    return next((choice for choice in node.fallback if choice.name not in tried), None)


def _asked_model(node: Node, last: Attempt) -> str | None:
    """Return the model as it was asked for: an agent may have told us a longer name meanwhile."""
    return next((choice.model for choice in (node.agent, *node.fallback) if choice.name == last.agent), None)


def _spent_up(node: Node, tries: Sequence[AttemptRecord]) -> bool:
    limit = node.task.budget_usd
    return limit is not None and sum(record.attempt.cost.usd or 0.0 for record in tries) >= limit


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
