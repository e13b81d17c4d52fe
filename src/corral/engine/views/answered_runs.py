"""Runs that were left waiting for an answer and have it by now: they do not wait any more, they want to be resumed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model import Entry
from corral.model.merge import MergeRecord
from corral.rules.merge import merge as rules
from corral.store.sqlite import inbox, merges
from corral.store.sqlite.store import RunLine, Store


def gates(store: Store, run: str | None = None) -> Mapping[str, Mapping[str, str]]:
    """Return runs, the gates of each that have their answer, and which; a deadline that has passed is one."""
    return inbox.answered_gates(store, time.time(), run)


def words(found: Mapping[str, str]) -> str:
    """Say which gates have their answers, and how it goes on."""
    told = "; ".join(f"`{node}` is answered: {answer}" for node, answer in found.items())
    return f"{told}: corral resume goes on with it"


def told(store: Store, lines: Sequence[RunLine]) -> list[RunLine]:
    """Return lines of runs that claim no wait that is over."""
    if not any(line.status == "waiting" for line in lines):
        return list(lines)
    over = gates(store)
    return [
        structs.replace(line, reason=words(over[line.run]), answered=True) if line.run in over else line
        for line in lines
    ]


def conflict_question(store: Store, record: MergeRecord) -> Entry | None:
    """Return what a person was asked about a merge in conflict."""
    return inbox.of_key(store, rules.question(record, 0.0).key)


def conflict_answer(store: Store, run: str) -> str | None:
    """Say of a run that waits for the answer to a conflict that it has it, and how it goes on."""
    for record in merges.conflicting(store, run):
        entry = conflict_question(store, record)
        if entry is None or (entry.open and entry.deadline > time.time()):
            continue
        answer, by = (entry.default, inbox.BY_DEADLINE) if entry.open else (entry.answer, entry.answered_by)
        return f"its conflict with {record.into} is answered: {answer}, by {by}: corral resume goes on with it"
    return None
