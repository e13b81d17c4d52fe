"""Where an attempt starts from: the commits of the nodes before it, combined where there are several."""

from __future__ import annotations

from collections.abc import Sequence

from corral.engine.host import Host
from corral.engine.talk.recorder import Recorder
from corral.errors import SetupFailed
from corral.events import Noted
from corral.flow import Node
from corral.world import merging, pins
from corral.world.merging import Combined

MARKED = "Combine steps, with conflicts"


async def find_base(recorder: Recorder, node: Node, host: Host) -> None:
    """Find the commit to start from; what does not go together is left to the agent, with marks in the files."""
    record, heads = recorder.record, recorder.record.heads
    if len(heads) > 1:
        combined = await merging.combine(host.repository, heads, f"Combine {len(heads)} steps")
        if combined.commit is None:
            combined = await _with_marks(recorder, node, host, combined)
        heads = (await pins.made_and_pinned(host.repository, host.attempt, lambda: _again(host, heads, combined)),)
        record.conflicts = tuple(each.path for each in combined.conflicts)
    record.base = heads[0] if heads else host.plan.base
    host.base = record.base


async def _again(host: Host, heads: Sequence[str], combined: Combined) -> str:
    """Combine once more, to the very same commit: whatever of it a `git gc` took before a ref led to it is back."""
    marked, words = bool(combined.conflicts), f"Combine {len(heads)} steps"
    made = (
        await merging.combine_marked(host.repository, heads, MARKED)
        if marked
        else await merging.combine(host.repository, heads, words)
    )
    return made.commit or combined.commit or ""


async def _with_marks(recorder: Recorder, node: Node, host: Host, found: Combined) -> Combined:
    paths = [each.path for each in found.conflicts]
    if node.kind == "run":
        raise SetupFailed(  # another try would meet the same
            f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
            hint="put a task between them, whose agent resolves it",
        )
    recorder.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
    return await merging.combine_marked(host.repository, recorder.record.heads, MARKED)
