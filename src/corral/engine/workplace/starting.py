"""Where an attempt starts from: the commits of the nodes before it, combined where there are several."""

from __future__ import annotations

from corral.engine.host import Host
from corral.engine.talk.recorder import Recorder
from corral.errors import SetupFailed
from corral.events import Noted
from corral.flow import Node
from corral.world import merging
from corral.world.merging import Combined


async def find_base(recorder: Recorder, node: Node, host: Host) -> None:
    """Find the commit to start from; what does not go together is left to the agent, with marks in the files."""
    record, heads = recorder.record, recorder.record.heads
    if len(heads) > 1:
        found = await merging.combine(host.repository, heads, f"Combine {len(heads)} steps")
        if found.commit is None:
            found = await _with_marks(recorder, node, host, found)
        heads, record.conflicts = (found.commit or "",), tuple(each.path for each in found.conflicts)
    record.base = heads[0] if heads else host.plan.base
    host.base = record.base


async def _with_marks(recorder: Recorder, node: Node, host: Host, found: Combined) -> Combined:
    paths = [each.path for each in found.conflicts]
    if node.kind == "run":
        raise SetupFailed(  # another try would meet the same
            f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
            hint="put a task between them, whose agent resolves it",
        )
    recorder.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
    return await merging.combine_marked(host.repository, recorder.record.heads, "Combine steps, with conflicts")
