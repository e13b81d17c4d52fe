"""A person chooses among attempts: the winner of a node is then theirs, and merge, diff and what comes after follow."""

from __future__ import annotations

import time

from msgspec import structs

from corral.engine.views import run_document
from corral.model import OPEN, Run
from corral.model.errors import BadRequest
from corral.model.events import StatusChanged
from corral.rules.merge import merge
from corral.store.interface import Store


def choose(store: Store, run: Run, named: str, by: str) -> Run:
    """Make an attempt the winner of its node; only work that is there, of a run that is over."""
    if run.status in OPEN:
        raise BadRequest(f"run {run.run} is not over: {run.status}", hint="choose when all attempts are over")
    if run.merge.status == "merged":
        raise BadRequest(f"run {run.run} is merged already", hint=f"take that back first: corral undo {run.run}")
    node, attempt = merge.attempts_to_merge(run, named)[0]
    why = f"chosen by {by}"
    if attempt.status != "done":
        why += f", though it is {attempt.status}"
    with store.transaction():
        store.move_node(run.run, structs.replace(node, winner=attempt.id, why=why))
        moved = StatusChanged("node", node.id, node.status, f"{attempt.id} {why}")
        store.note(run.run, moved, at=time.time(), node=node.id, attempt=attempt.id)
    store.flush()
    return run_document.build(store, run.run)
