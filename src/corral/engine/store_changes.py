"""How a front end learns that something was written to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.store.signal import Bell

if TYPE_CHECKING:
    from corral.engine.engine import Engine

__all__ = ["Bell", "bell_of"]


def bell_of(engine: Engine) -> Bell:
    """Return what rings whenever any process has written to the engine's store."""
    return Bell(engine.store.folder)
