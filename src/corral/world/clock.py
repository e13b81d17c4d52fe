"""Time as this machine knows it: durations that no change of its clock can bend, and time zones."""

from __future__ import annotations

import sys
import time
from datetime import datetime, tzinfo

from corral.world.process_identity import boot

_STEADY = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def reading() -> str:
    """Return the present moment on a clock that nobody sets: `BOOT/SECONDS`, for `seconds_since`."""
    return f"{boot()}/{time.clock_gettime(_STEADY):.3f}"


def seconds_since(start: str, started: float) -> float:
    """Return how long ago a reading was taken.

    After a restart of the machine that is known by its wall clock alone, since `started`; it is never less than 0.
    """
    name, _, then = start.partition("/")
    passed = time.clock_gettime(_STEADY) - float(then) if then and name == boot() else time.time() - started
    return round(max(0.0, passed), 3)


def zone(name: str) -> tzinfo | None:
    """Return the time zone of that name, this machine's own for "", None where there is none."""
    if not name:
        return datetime.now().astimezone().tzinfo
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- rarely needed

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
