"""How a front end learns that something was written to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.store.signal import ChangeWatch

if TYPE_CHECKING:
    from corral.engine.engine import Engine

__all__ = ["ChangeWatch", "bell_of"]


def bell_of(engine: Engine) -> ChangeWatch:
    """Return what rings whenever any process has written to the engine's store."""
    return ChangeWatch(engine.store.folder)
