"""The status of runs: computed here, for the run document and every list, from what is stored."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral.model import OPEN, AttemptRecord, Entry, NodeState, Run, RunRecord, Status
from corral.model.inbox import BY_DEADLINE
from corral.model.merge import MergeRecord
from corral.rules.merge import merge as rules
from corral.rules.text.questions import no_winner, ways
from corral.store import records
from corral.store.interface import Store
from corral.store.records import RunLine
from corral.world import process_identity

ACTIVE_STATUSES = OPEN - {"waiting", "paused"}  #: a process should work on these; what waits is left to the user
ORPHANED = "its process is gone; corral resume continues it"
QUEUED = "waits in the queue to be taken up"
ABORT = "abort"  #: the answer that gives up a merge in conflict

OpenQuestions = Mapping[str, Entry]  #: what waits in the inbox, by its number


# --- who drives it


def is_orphaned(owner: str | None) -> bool:
    """Tell whether no process drives a run any more."""
    return owner is None or process_identity.is_alive(owner) is False


def is_gone(owner: str | None, lease_until: float, now: float) -> bool:
    """Tell whether nobody drives a run: an owner elsewhere, of whom nothing is known, is gone once its lease is out."""
    alive = process_identity.is_alive(owner) if owner is not None else False
    return alive is False or (alive is None and not records.lease_left(lease_until, now))


def is_left(record: RunRecord, now: float) -> bool:
    """Tell whether nobody drives a run, one whose owner elsewhere is silent included."""
    return is_gone(record.owner, record.lease_until, now)


def lease_left(record: RunRecord, now: float) -> float:
    """Return for how many seconds more a run belongs to its owner if that stays silent."""
    return records.lease_left(record.lease_until, now)


def is_stuck(record: RunRecord, now: float) -> bool:
    """Return whether the process that drives a run is there but has let its lease run out."""
    return record.owner is not None and not is_orphaned(record.owner) and not lease_left(record, now)


def owner_words(owner: str | None) -> str:
    """Name the process that drives a run."""
    pid = process_identity.process_of(owner) if owner else None
    if pid is None:
        return f"a process on {owner.split('/')[0]}, or in another container there" if owner else "another process"
    return f"process {pid}" + (", which is stopped (SIGSTOP)" if process_identity.is_suspended(pid) else "")


def is_lost(status: Status, owner: str | None, lease_until: float | None = None) -> bool:
    """Tell whether a process should work on a run and none does; one in the queue was never begun.

    Without the lease, an owner elsewhere counts as at work.
    """
    if status not in ACTIVE_STATUSES or (status, owner) == ("queued", None):
        return False
    return is_orphaned(owner) if lease_until is None else is_gone(owner, lease_until, time.time())


# --- of one run


def run_status(
    store: Store, record: RunRecord, nodes: Sequence[NodeState], records: Sequence[AttemptRecord]
) -> tuple[Status, str | None]:
    """Return the status of a run and its reason; put into its nodes and attempts what they wait for."""
    if expired := expired_choice(store, record, time.time()):
        return _end_race(expired, nodes)
    status, asks = record.status, None
    if status == "running" and not is_left(record, time.time()):
        asked = {name: entry for name, entry in open_questions(store).items() if entry.run == record.id}
        if asked:
            status, asks = mark_waiting(nodes, records, asked)
    gates = store.inbox.answered_gates(time.time(), record.id).get(record.id, {}) if status == "waiting" else {}
    for node in nodes:
        if node.id in gates:
            node.reason = f"answered: {gates[node.id]}"
    waits = None if is_lost(record.status, record.owner, record.lease_until) else _mark_unstarted(nodes, records)
    reason = _reason(store, record, gates)
    if (record.status, record.owner) == ("queued", None):
        reason = waits_for_machine(store, record.plan.git_dir) or reason
    return status, asks or reason or waits


def _reason(store: Store, record: RunRecord, gates: Mapping[str, str]) -> str | None:
    if gates:
        return _gate_words(gates)
    if record.status == "waiting" and (words := _answered_conflict(store, record.id)):
        return words
    if record.status in ACTIVE_STATUSES and is_stuck(record, time.time()):
        return f"{owner_words(record.owner)}, does not answer: corral stop or corral resume takes it over"
    return _stored_reason(record)


def waits_for_machine(store: Store, git_dir: str) -> str:
    """Say who has a repository that no server has; empty: one has it, there is no server, or nobody knows."""
    places, servers = store.repositories.places(git_dir), store.queue.servers(time.time())
    if not places or not servers or any(each.place in places for each in servers):
        return ""
    machines = " or ".join(dict.fromkeys(records.machine_of(place) for place in places))
    return f"waits for a server on {machines}, which has its repository: corral serve there"


def _stored_reason(run: RunRecord | RunLine) -> str | None:
    if is_lost(run.status, run.owner, run.lease_until):
        return ORPHANED
    return QUEUED if run.status == "queued" and run.owner is None else run.reason


def _gate_words(answered: Mapping[str, str]) -> str:
    words = "; ".join(f"`{node}` is answered: {answer}" for node, answer in answered.items())
    return f"{words}: corral resume continues it"


# --- agents that wait for the user


def open_questions(store: Store) -> OpenQuestions:
    """Return what nobody has answered and still may."""
    now = time.time()
    return {entry.id: entry for entry in store.inbox.waiting() if entry.deadline > now}


def mark_waiting(
    nodes: Sequence[NodeState], records: Sequence[AttemptRecord], asked: OpenQuestions
) -> tuple[Status, str | None]:
    """Put in which attempts and nodes wait for the user; return the status of a run that is driven, and why.

    A run whose work is nothing but such waiting waits itself.
    """
    reasons: dict[str, str] = {}
    for record in records:
        entry = next((asked[each] for each in record.held_by if each in asked), None)
        if entry and record.phase == "working" and record.attempt.status == "running":
            record.attempt.status = "waiting"
            reasons[record.attempt.id] = _question_words(entry)
    for node in nodes:
        at_work = [each for each in node.attempts if each.status in ("running", "waiting")]
        if node.status == "running" and at_work and all(each.status == "waiting" for each in at_work):
            node.status, node.reason = "waiting", reasons.get(at_work[0].id)
    waits = [node for node in nodes if node.status == "waiting"]
    if not waits or any(node.status == "running" and not _stands_for(node, nodes) for node in nodes):
        return "running", None
    own = next(
        (_question_words(each) for each in asked.values() if each.node == waits[0].id and not each.attempt), None
    )
    return "waiting", own or waits[0].reason


def _mark_unstarted(nodes: Sequence[NodeState], records: Sequence[AttemptRecord]) -> str | None:
    """Put into each node what its attempts wait for before they start; return it where none of the run is at work."""
    at_work = [each for each in records if each.attempt.status in OPEN and each.phase != "over"]
    waiting = [each for each in at_work if each.waits]
    for node in nodes:
        own = [each for each in at_work if each.node == node.id]
        if own and all(each.waits for each in own):
            node.reason = own[0].waits
    return waiting[0].waits if waiting and len(waiting) == len(at_work) else None


def _stands_for(node: NodeState, nodes: Sequence[NodeState]) -> bool:
    """Tell whether a node only stands for others: its items, or the flow in it."""
    return not node.attempts and any(each.id.startswith((f"{node.id}.", f"{node.id}/")) for each in nodes)


def _question_words(entry: Entry) -> str:
    return f"waits for an answer: {entry.text} (corral answer {entry.id} {ways(entry)})"


# --- questions whose deadline has passed


def expired_choice(store: Store, record: RunRecord, now: float) -> Entry | None:
    """Return the question of a run that is nothing but a race whose winner nobody chose in time.

    No process drives such a run: it has failed, whether or not that is stored yet. Longer flows end when resumed.
    """
    if record.status != "waiting" or len(record.plan.flow.nodes) != 1 or not is_orphaned(record.owner):
        return None
    asked = store.inbox.of_run(record.id)
    last = asked[-1].as_of(now) if asked else None
    return last if last and last.about == "choice" and last.answered_by == BY_DEADLINE else None


def _end_race(entry: Entry, nodes: Sequence[NodeState]) -> tuple[Status, str | None]:
    for node in nodes:
        if node.id == entry.node:
            node.status, node.reason = "failed", no_winner(entry)
    return "failed", no_winner(entry)


def conflict_question(store: Store, record: MergeRecord) -> Entry | None:
    """Return what the user was asked about a merge in conflict."""
    return store.inbox.of_key(rules.question(record, 0.0).key)


def given_up(store: Store, record: MergeRecord, now: float) -> Entry | None:
    """Return the answer that gave up a merge in conflict: the user's, or the default after its deadline."""
    entry = conflict_question(store, record) if record.state == "conflict" else None
    entry = entry.as_of(now) if entry else None
    return entry if entry and entry.answer == ABORT else None


def _answered_conflict(store: Store, run: str) -> str | None:
    """Say of a run that waits for the answer to a conflict that it has it, and how it continues."""
    for record in store.merges.list_conflicting(run):
        entry = conflict_question(store, record)
        entry = entry.as_of(time.time()) if entry else None
        if entry is None or entry.is_open:
            continue
        words = f"{entry.answer}, by {entry.answered_by}: corral resume continues it"
        return f"its conflict with {record.into} is answered: {words}"
    return None


# --- of many runs


def list_statuses(store: Store, lines: Sequence[RunLine]) -> list[RunLine]:
    """Return the lines of a list with the status and reason that each run has now."""
    waiting = any(line.status == "waiting" for line in lines)
    gates = store.inbox.answered_gates(time.time()) if waiting else dict[str, dict[str, str]]()
    asked = open_questions(store) if any(line.status == "running" for line in lines) else dict[str, Entry]()
    asking = {entry.run for entry in asked.values()}
    return [_line_status(store, line, gates.get(line.run), asked if line.run in asking else {}) for line in lines]


def _line_status(store: Store, line: RunLine, gates: Mapping[str, str] | None, asked: OpenQuestions) -> RunLine:
    if line.status == "waiting" and gates:
        if expired := expired_choice(store, store.run(line.run), time.time()):
            return structs.replace(line, status="failed", reason=no_winner(expired))
        return structs.replace(line, reason=_gate_words(gates), answered=True)
    if line.status == "running" and asked and not is_gone(line.owner, line.lease_until, time.time()):
        nodes, records = store.nodes(line.run), store.attempts(line.run)
        for node in nodes:
            node.attempts = [each.attempt for each in records if each.node == node.id]
        mine = {name: entry for name, entry in asked.items() if entry.run == line.run}
        status, reason = mark_waiting(nodes, records, mine)
        return structs.replace(line, status=status, reason=reason or line.reason)
    return structs.replace(line, reason=_stored_reason(line))


def may_have_moved(store: Store, run: Run) -> bool:
    """Tell whether the branch of a run that waits to be merged may have new commits; git is not asked."""
    if run.merge.status not in ("ready", "conflict", "undone") or not run.merge.into or not run.base:
        return False
    place = Path(store.run(run.run).plan.git_dir) / "refs" / "heads" / run.merge.into
    try:
        return place.read_text().strip() != run.base
    except (OSError, ValueError):
        return True
