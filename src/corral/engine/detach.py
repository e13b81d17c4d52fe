"""Leave a run to a process of its own, which goes on when the one that started it ends."""

from __future__ import annotations

import os
import sys

from corral.engine.views import run_status
from corral.model.errors import BadRequest
from corral.store.interface import Store
from corral.world import process, process_identity

MOST_WORDS = 2000
REFUSED = 2


async def detach(store: Store, run: str) -> None:
    """Start `corral resume` for a run that nobody drives; return once it does."""
    log = store.folder / "logs" / f"{run}.txt"
    argv = [sys.executable, "-P", "-m", "corral", "resume", run, "--quiet", "--json"]
    left = process.start_detached(argv, {**os.environ, "CORRAL_HOME": str(store.folder)}, log)
    bell = store.watch()
    try:
        while run_status.is_orphaned(store.run(run).owner) and left.poll() is None:
            await bell.listen(0.1)
    finally:
        bell.close()
    if left.poll() == REFUSED:
        said = log.read_text(errors="replace")[-MOST_WORDS:].strip().removeprefix("error: ")
        raise BadRequest(said or f"run {run} could not be started")


async def to_background(store: Store, run: str) -> str:
    """Say in words who takes a queued run up: the server of the store, or a process that is started for it."""
    server = store.queue.serving()
    if server and process_identity.is_alive(server.owner) is not False:
        return f"queued: the server at {server.address} takes it up"
    await detach(store, run)
    return f"started in the background; watch it: corral logs -f {run}"
