"""Wait for a condition, never for a time; and who is running, seen from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


#: Nobody waits so long where all is well: on a machine with far too much to do, an agent takes a minute to start.
PATIENCE_SECONDS = 200.0


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true answer of `condition`; give up loudly after `seconds`."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > begun + seconds:
            raise AssertionError(f"waited {seconds:.0f} s in vain: {what}")
        # Whoever asks by starting a program must not take the processor from the one that is waited for: the longer
        # it takes already, the less.
        time.sleep(min(max(0.02, (2 + now - begun) * (now - asked)), 2.0))


def tagged_processes(sign: str) -> list[int]:
    """Return the processes in whose environment `sign` stands, wherever they run."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if sign.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue  # it ended while we looked
    return found
