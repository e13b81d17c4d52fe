"""The key that receipts are sealed with: made once, readable by its owner alone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NAME = "receipt.key"
SIZE = 32


def key(state: Path) -> bytes | None:
    """Return the key of this state folder; None where there is none."""
    try:
        found = (state / NAME).read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == SIZE else None


def get_or_make_key(state: Path) -> bytes:
    """Return the key, made now if there is none; of two who make one at once, one wins."""
    known = key(state)
    if known is not None:
        return known
    own = state / f"{NAME}.{os.getpid()}"
    descriptor = os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(SIZE))
    with contextlib.suppress(FileExistsError):
        os.link(own, state / NAME)
    own.unlink()
    return (state / NAME).read_bytes()
