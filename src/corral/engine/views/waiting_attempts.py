"""Agents at work that do nothing but wait for a person: they are told as waiting, and so is a run of nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model import AttemptRecord, Entry, NodeState, Status
from corral.rules.text.questions import ways
from corral.store.sqlite import inbox
from corral.store.sqlite.store import RunLine, Store
from corral.world import process_identity

Open = Mapping[str, Entry]  #: what waits in the inbox, by its number


def waiting(store: Store) -> Open:
    """Return what nobody has answered and still may."""
    now = time.time()
    return {entry.id: entry for entry in inbox.waiting(store) if entry.deadline > now}


def tell(nodes: Sequence[NodeState], records: Sequence[AttemptRecord], asked: Open) -> tuple[Status, str | None]:
    """Put in which attempts and nodes wait for a person; return how a run stands that is driven, and why."""
    reasons: dict[str, str] = {}
    for record in records:
        entry = next((asked[each] for each in record.held_by if each in asked), None)
        if entry and record.phase == "working" and record.attempt.status == "running":
            record.attempt.status = "waiting"
            reasons[record.attempt.id] = _words(entry)
    for node in nodes:
        at_work = [each for each in node.attempts if each.status in ("running", "waiting")]
        if node.status == "running" and at_work and all(each.status == "waiting" for each in at_work):
            node.status, node.reason = "waiting", reasons.get(at_work[0].id)
    waits = [node for node in nodes if node.status == "waiting"]
    if not waits or any(node.status == "running" and not _stands_for(node, nodes) for node in nodes):
        return "running", None
    own = next((_words(each) for each in asked.values() if each.node == waits[0].id and not each.attempt), None)
    return "waiting", own or waits[0].reason


def told(store: Store, lines: Sequence[RunLine]) -> list[RunLine]:
    """Return lines of runs that claim no work where all of it waits for a person."""
    if not any(line.status == "running" for line in lines):
        return list(lines)
    asked = waiting(store)
    asking = {entry.run for entry in asked.values()}
    return [_told(store, line, asked) if line.run in asking and _driven(line) else line for line in lines]


def _driven(line: RunLine) -> bool:
    return line.status == "running" and line.owner is not None and process_identity.alive(line.owner) is not False


def _told(store: Store, line: RunLine, asked: Open) -> RunLine:
    nodes, records = store.nodes(line.run), store.attempts(line.run)
    for node in nodes:
        node.attempts = [each.attempt for each in records if each.node == node.id]
    mine = {name: entry for name, entry in asked.items() if entry.run == line.run}
    status, reason = tell(nodes, records, mine)
    return structs.replace(line, status=status, reason=reason or line.reason)


def _stands_for(node: NodeState, nodes: Sequence[NodeState]) -> bool:
    """Tell whether a node only stands for others: its items, or the flow in it."""
    return not node.attempts and any(each.id.startswith((f"{node.id}.", f"{node.id}/")) for each in nodes)


def _words(entry: Entry) -> str:
    return f"waits for an answer: {entry.text} (corral answer {entry.id} {ways(entry)})"
