"""Files that no agent sees, laid over the checked tree for a last run of its checks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from corral.machines.host import Host
from corral.world.workspace import held_out
from corral.world.workspace.checkout import Workspace


def layer(host: Host) -> Callable[[Workspace], Awaitable[list[str]]] | None:
    """Return what lays the held-out files of a run over a checkout; None where it has none."""
    name = host.plan.evidence.held_out
    if name is None:
        return None

    async def lay(made: Workspace) -> list[str]:
        return await asyncio.to_thread(held_out.lay, host.state, name, made.tree, host.owner)

    return lay


async def files(host: Host) -> tuple[str, ...]:
    """Return the paths of the held-out files of a run."""
    name = host.plan.evidence.held_out
    return tuple(await asyncio.to_thread(held_out.files, host.state, name)) if name else ()
