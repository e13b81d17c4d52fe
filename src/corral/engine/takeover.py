"""What the earlier owner of a run left running on this machine: its work is kept, then it is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from corral.attempt.proof.tree_runs import HOSTS as BESIDE
from corral.attempt.repositories import repository_of
from corral.machines import collect_work
from corral.machines.host import host_of
from corral.machines.workspace_host import beside_name
from corral.model import AttemptRecord, RunPlan
from corral.world import process_identity
from corral.world.workspace import checkout


async def end_left(state: Path, plan: RunPlan, records: Sequence[AttemptRecord]) -> list[str]:
    """End the processes of attempts that this process has taken over; return the attempts that still had some."""
    left = [record for record in records if process_identity.has_processes(record.attempt.id)]
    await asyncio.gather(*(_keep(state, plan, record) for record in left if record.phase == "working"))
    for record in records:
        for name in (record.attempt.id, *(beside_name(record.attempt.id, each) for each in BESIDE)):
            process_identity.sweep(name)
    return [record.attempt.id for record in left]


async def _keep(state: Path, plan: RunPlan, record: AttemptRecord) -> None:
    """Keep a snapshot of a workspace in which an agent is still at work."""
    tree = Path(record.folder) / "work"
    if not tree.is_dir():
        return
    host = host_of(plan, plan.flow.nodes[0].task, repository_of(plan, state), state, record)
    await collect_work.before_end(host, checkout.read_workspace(tree))
