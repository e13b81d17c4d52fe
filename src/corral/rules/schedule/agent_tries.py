"""What follows the last try of one agent at one node: again, someone else, wait, or enough."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence

from msgspec import Struct

from corral import amounts
from corral.model import Attempt, AttemptRecord, ErrorClass, RetryPolicy, Status
from corral.model.flow import AgentChoice, Node
from corral.rules.context import prompt

#: Passes by itself, often.
PASSING: frozenset[ErrorClass] = frozenset({"rate_limit", "overloaded", "network", "crash", "bad_output"})
#: The same again would cost the same and most likely end the same: only when the user asks for tries.
IF_ASKED: frozenset[ErrorClass] = frozenset(
    {"check_failed", "doubtful", "no_change", "denied", "memory", "processes", "flood", "context_too_long"}
)
#: No need to wait before these: nothing outside has to recover.
AT_ONCE: frozenset[ErrorClass] = frozenset({"check_failed", "doubtful", "no_change", "bad_output", "denied"})
ENDS: frozenset[Status] = frozenset({"done", "stopped", "over_budget", "skipped", "limited"})


def delay_seconds(tries: Sequence[Attempt], policy: RetryPolicy, asked: int | None) -> float | None:
    """Return how long to wait before the next try of a node, or None to give up.

    `tries` are those that ended, oldest first; `asked` is the number of retries a user or a file named.
    """
    last = tries[-1]
    most = policy.most if asked is None else asked
    kind = last.error.kind if last.error else None
    lasting = bool(last.error and last.error.lasting is True and asked is None)
    if last.status in ENDS or len(tries) > most or lasting or not _worth_it(last.status, kind, asked is not None):
        return None
    if kind in AT_ONCE:
        return 0.0
    delay = policy.delay_seconds * (2 ** (len(tries) - 1) if policy.exponential else 1)
    return min(delay, policy.longest_seconds) * _jitter(last.id)


def _worth_it(status: Status, kind: ErrorClass | None, asked: bool) -> bool:  # noqa: FBT001
    if status == "timed_out":
        return asked
    return kind in PASSING or (asked and kind in IF_ASKED)


def _jitter(seed: str) -> float:
    """Spread waits over the upper half, the same for the same attempt."""
    return 0.5 + zlib.crc32(seed.encode()) % 1000 / 2000


MOST_WAITS = 3  #: for a quota in one run; then it is parked, and a user says when to continue
MOST_SAME = 2  #: rounds of a repeat that end in the very same failure


class Begin(Struct, frozen=True, gc=False):
    """Start a new attempt of a node."""

    node: str
    agent: AgentChoice
    number: int = 1
    lane: int = 0
    retry_of: str | None = None
    fallback_of: str | None = None
    onto: str | None = None  #: the attempt whose result this one starts from
    candidates: tuple[str, ...] = ()  #: for a judge: the attempts to compare, in the order it is shown them
    account: str | None = None  #: to work on, instead of the one that is limited


class ResumeAttempt(Struct, frozen=True):
    """Take up an attempt that nobody drives any more."""

    attempt: str
    record: AttemptRecord


class WaitUntil(Struct, frozen=True):
    time: float
    quiet: bool = False  #: nothing starts then: it is only looked at again


class Park(Struct, frozen=True):
    """A node waits for a user to say how it continues."""

    node: str
    reason: str
    until: float | None = None


class TriesEnd(Struct, frozen=True):
    """A lane has come to its end with its last attempt."""

    last: AttemptRecord | None
    reason: str = ""
    over_budget: bool = False


class AgentTries(Struct, frozen=True, kw_only=True):
    """One agent at one node: what it did so far."""

    node: Node
    place: int
    agent: AgentChoice
    tries: Sequence[AttemptRecord]
    policy: RetryPolicy
    spent_usd: float = 0.0  #: by all lanes of the node
    allowed_usd: float = 0.0  #: more than its budget, by a user's word


def decide(
    lane: AgentTries, *, driven: Collection[str], stopping: bool, now: float
) -> Begin | ResumeAttempt | WaitUntil | Park | TriesEnd | None:
    """Return what to do now; None while it is at work."""
    if not lane.tries:
        return TriesEnd(None) if stopping else Begin(lane.node.id, lane.agent, lane=lane.place)
    record = lane.tries[-1]
    last = record.attempt
    if record.phase != "over":
        return None if last.id in driven else ResumeAttempt(last.id, record)
    if last.status == "done" or stopping:
        return TriesEnd(record)
    when = _again_at(lane, now)
    if when is None and last.status == "limited" and lane.policy.on_limit == "ask":
        return Park(lane.node.id, reason(last) + _choices(record), record.until)
    successor = None if when is not None else _next_agent(lane)
    if when is None and successor is None:
        return TriesEnd(record, reason(last) + _parked_text(record))
    total = lane.policy.total_seconds
    if not is_lost(last) and taken_seconds(lane.tries, max(when or 0.0, now)) > total:
        return TriesEnd(record, reason(last) + f"; not tried again: [retry] total_seconds ({total:.0f}) are over")
    if _is_spent_up(lane):
        return TriesEnd(record, f"the budget of {amounts.usd(lane.node.task.budget_usd)} is used up", over_budget=True)
    if successor:
        return Begin(lane.node.id, successor, lane=lane.place, fallback_of=last.id)
    if when is not None and when > now:
        return WaitUntil(when)
    # None of these used up a try.
    same = is_lost(last) or last.status in ("limited", "over_budget") or record.elsewhere is not None
    agent = _asked_agent(lane, last)
    onto = last.id if last.status == "over_budget" and last.commit else None
    return Begin(
        lane.node.id,
        agent,
        last.number + (not same),
        lane.place,
        retry_of=last.id,
        onto=onto,
        account=record.elsewhere or last.account,
    )


def next_round(lane: AgentTries, *, holds: bool | None, now: float) -> Begin | TriesEnd | WaitUntil:
    """Decide whether a repeated node is done once more; `holds` tells whether its `until` is true, None if `checks`."""
    record = lane.tries[-1]
    last, repeat, command = record.attempt, lane.node.repeat, lane.node.kind == "run"
    rounds = [each for each in lane.tries if _is_round(each.attempt, command=command)]
    if repeat is None or not _is_round(last, command=command):
        return TriesEnd(record, reason(last) if last.status != "done" else "")
    if last.status == "done" and holds is not False:
        return TriesEnd(record)
    if len(rounds) >= repeat.most:
        return TriesEnd(
            record, f"`until` does not hold after {len(rounds)} rounds" if last.status == "done" else reason(last)
        )
    if (
        not command
        and len(rounds) > MOST_SAME
        and len({_failure(each.attempt) for each in rounds[-MOST_SAME - 1 :]}) == 1
    ):
        return TriesEnd(record, f"the same failure {MOST_SAME + 1} times: {reason(last)}")
    if _is_spent_up(lane):
        return TriesEnd(record, f"the budget of {amounts.usd(lane.node.task.budget_usd)} is used up", over_budget=True)
    when = (record.ended or 0.0) + repeat.delay_seconds
    if repeat.delay_seconds and when > now:
        return WaitUntil(when)
    onto = last.id if last.commit else None
    return Begin(lane.node.id, lane.agent, last.number + 1, lane.place, retry_of=last.id, onto=onto)


def _is_round(attempt: Attempt, *, command: bool) -> bool:
    """Tell whether an attempt counts as a round: a command's does however it ended, unless someone stopped it."""
    failed = command and attempt.status in ("failed", "timed_out")
    return attempt.status == "done" or failed or _not_accepted(attempt)


def _not_accepted(attempt: Attempt) -> bool:
    return attempt.error is not None and attempt.error.kind in ("check_failed", "doubtful", "no_change", "bad_output")


def _failure(attempt: Attempt) -> tuple[str, str]:
    """What failed, by which two failures are the same."""
    bad = next((check for check in attempt.checks if not check.passed), None)
    return (reason(attempt), bad.output[-2000:] if bad else "") if attempt.status != "done" else (attempt.id, "")


def _parked_text(record: AttemptRecord) -> str:
    if record.attempt.status != "limited" or record.until is None:
        return ""
    return "; parked until " + amounts.utc_time(record.until)


def _choices(record: AttemptRecord) -> str:
    back = amounts.utc_time(record.until) if record.until else "a time it does not say"
    return f"; its quota is back at {back}. Then, or with another key now: corral resume; to give up: corral stop"


def taken_seconds(tries: Sequence[AttemptRecord], now: float) -> float:
    """Return how long the tries of a lane and the waits between them took, without the time nobody drove it."""
    total = 0.0
    for record, following in zip(tries, [*(each.started for each in tries[1:]), now], strict=True):
        ended = record.ended or record.started
        total += record.attempt.seconds or max(0.0, ended - record.started)
        if not is_lost(record.attempt) and record.until != 0.0:  # 0: a user woke it up
            total += max(0.0, following - ended)
    return total


def _again_at(lane: AgentTries, now: float) -> float | None:
    """Return when the same agent may try again, or None when it may not."""
    record, policy = lane.tries[-1], lane.policy
    last, ended = record.attempt, record.ended or 0.0
    if is_lost(last) or (last.status == "over_budget" and record.until == 0.0):  # 0: a user lets it continue
        return ended
    if record.elsewhere is not None:
        return ended
    if last.status == "limited" and record.until is not None:
        waits = sum(
            1 for each in lane.tries if each.attempt.status == "limited" and each.until != 0.0 and not each.elsewhere
        )
        if record.until <= now and waits <= MOST_WAITS:
            return record.until
        soon = record.until - now <= policy.max_wait_seconds
        return record.until if policy.on_limit == "wait" and soon and waits <= MOST_WAITS else None
    if last.status == "limited":  # nobody knows until when
        return None
    own = [each.attempt for each in lane.tries if each.attempt.agent == last.agent and not is_lost(each.attempt)]
    counted = [each for each in own if each.status != "limited"] or own
    delay = delay_seconds(counted, policy, lane.node.task.retries)
    return None if delay is None else ended + delay


def _next_agent(lane: AgentTries) -> AgentChoice | None:
    """Return who tries next when an agent cannot: the first named that has not tried yet."""
    last = lane.tries[-1].attempt
    if last.status == "over_budget":
        return lane.tries[-1].cheaper
    if last.status not in ("failed", "timed_out", "limited"):
        return None
    tried = {record.attempt.agent for record in lane.tries}
    return next((choice for choice in lane.node.fallback if choice.name not in tried), None)


def _asked_agent(lane: AgentTries, last: Attempt) -> AgentChoice:
    """Return the agent as it was asked for: it may have reported a longer name of its model meanwhile."""
    named = (choice for choice in (lane.agent, *lane.node.fallback) if choice.name == last.agent)
    return next(named, AgentChoice(last.agent))


def _is_spent_up(lane: AgentTries) -> bool:
    limit = lane.node.task.budget_usd
    return limit is not None and lane.spent_usd >= limit + lane.allowed_usd


def is_lost(attempt: Attempt) -> bool:
    """Tell whether the engine died under it: that is our failure, and uses up no try."""
    return attempt.status == "stopped" and attempt.error is not None


def can_continue(record: AttemptRecord) -> bool:
    """Tell whether a lost or limited attempt can be continued: by its agent's own session, or from a summary."""
    parked = record.attempt.status == "limited" or is_lost(record.attempt)
    return parked and bool((record.resumes and record.attempt.session) or record.summary)


def new_record(of: tuple[str, str], begin: Begin, role: str | None, now: float) -> AttemptRecord:
    """Return an attempt that is about to start; `of` are its run and its own id."""
    run, name = of
    attempt = Attempt(
        id=name,
        number=begin.number,
        retry_of=begin.retry_of,
        fallback_of=begin.fallback_of,
        agent=begin.agent.name,
        account=begin.account or begin.agent.account,
        model=begin.agent.model,
        role=role,
    )
    return AttemptRecord(
        attempt=attempt,
        run=run,
        node=begin.node,
        lane=begin.lane,
        chosen=begin.agent.account is not None,
        candidates=begin.candidates,
        folder="",
        started=now,
    )


def carry_over(record: AttemptRecord, before: AttemptRecord, begin: Begin, policy: RetryPolicy) -> None:
    """Let a new attempt continue from an earlier one that left a lesson, and maybe work."""
    if not record.continues:
        record.fed_back = prompt.feedback(before.attempt) or before.fed_back
        if begin.retry_of and policy.start == "last":
            record.start = before.attempt.commit or before.start
    if begin.onto and before.attempt.status == "over_budget":
        record.heads, record.start = before.heads, before.attempt.commit
    elif begin.onto and before.attempt.commit:  # a further round is proven against where the first began
        record.heads, record.compared_with = (before.attempt.commit,), before.compared_with or before.base
    elif not begin.onto:  # another try at a round begins where that round began
        record.heads, record.start = before.heads or record.heads, record.start or before.start
        record.compared_with = before.compared_with
    if before.attempt.revises:
        record.attempt.revises, record.review, record.before = before.attempt.revises, before.review, before.before
    record.steers = before.steers


def continue_session(record: AttemptRecord, before: AttemptRecord) -> None:
    """Let a new attempt continue in the workspace of an earlier one, in its session or from its summary."""
    record.folder, record.continues = before.folder, before.attempt.id
    record.base, record.conflicts, record.facts = before.base, before.conflicts, before.facts
    record.attempt.session, record.summary = before.attempt.session, before.summary


def takes_children(before: AttemptRecord, begin: Begin) -> bool:
    """Tell whether a new attempt takes over the child runs of the one before it."""
    stopped_early = is_lost(before.attempt) or before.attempt.status in ("limited", "over_budget")
    return begin.retry_of is not None and stopped_early


def reason(attempt: Attempt) -> str:
    """Say in one line why an attempt is not done."""
    if attempt.error and attempt.status == "failed":
        return f"{attempt.error.kind}: {attempt.error.message}"
    return attempt.error.message if attempt.error else attempt.status.replace("_", " ")
