"""Who takes a queued run up: the server of the store, or, where there is none, a process started for it."""

from __future__ import annotations

import sys

from corral.world import custody, process
from corral.world.store import waiting
from corral.world.store.sqlite import Store


def to_background(store: Store, run: str) -> str:
    """Return in words who takes a run up; where nobody would, start a process that does and outlives this one."""
    server = waiting.serving(store)
    if server and custody.alive(server.owner) is not False:
        return f"queued: the server at {server.address} takes it up"
    log = store.folder / "logs" / f"{run}.driver.log"
    pid = process.detach([sys.executable, "-m", "corral", "resume", run, "--quiet"], log)
    return f"started in the background (process {pid}); watch it: corral logs -f {run}"
