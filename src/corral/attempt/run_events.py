"""Tell whoever watches a run in this process."""

from __future__ import annotations

from corral.model.errors import CorralError
from corral.model.events import Listener, RunEvent


def tell(listen: Listener, heard: RunEvent) -> None:
    """Tell a watcher; one that fails (its terminal is gone, its pipe closed) must not fail the work."""
    try:
        listen(heard)
    except (OSError, ValueError, CorralError):
        return
