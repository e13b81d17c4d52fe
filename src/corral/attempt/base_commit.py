"""Where an attempt starts from: the commits of the nodes before it, combined where there are several."""

from __future__ import annotations

from corral.attempt.events import AttemptEvents
from corral.machines.host import Host
from corral.model.errors import SetupFailed
from corral.model.events import Noted
from corral.model.flow import Node
from corral.world.git import merge_commits, pins
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository


async def find_base(attempt_events: AttemptEvents, node: Node, host: Host) -> str | None:
    """Find the commit to start from; what does not go together is left to the agent, with marks in the files."""
    record, heads = attempt_events.record, attempt_events.record.heads
    if len(heads) > 1:
        combined = await pins.combine_and_pin(
            host.repository, host.attempt, lambda apart: _combine_heads(attempt_events, node, apart)
        )
        heads, record.conflicts = (combined.commit or "",), tuple(each.path for each in combined.conflicts)
    record.base = heads[0] if heads else host.plan.base
    return record.base


async def _combine_heads(attempt_events: AttemptEvents, node: Node, repository: Repository) -> CombinedCommit:
    heads = attempt_events.record.heads
    found = await merge_commits.combine(repository, heads, f"Combine {len(heads)} steps")
    if found.commit is not None:
        return found
    paths = [each.path for each in found.conflicts]
    if node.kind == "run":
        raise SetupFailed(  # another try would meet the same
            f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
            hint="put a task between them, whose agent resolves it",
        )
    attempt_events.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
    return await merge_commits.combine_marked(repository, heads, "Combine steps, with conflicts")
