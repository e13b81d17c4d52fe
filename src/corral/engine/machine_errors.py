"""What an unexpected error of the machine means for a user: one line, a hint, an exit code."""

from __future__ import annotations

import errno

from corral.model.errors import BadRequest, CorralError
from corral.world import machine_limits


def explain(error: Exception) -> CorralError | None:
    """Return an error of the machine in words; None for a fault of our own."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CorralError(f"what was to be written has no room: {error.strerror}", hint="nothing stored is lost")
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and error.filename:
        hint = "make it writable for you, or set CORRAL_HOME to another folder"
        return BadRequest(f"{error.filename}: {error.strerror}", hint=hint)
    return machine_limits.of(error)
