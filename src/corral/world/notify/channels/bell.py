"""Ring the terminal's bell."""

from __future__ import annotations

import contextlib
import sys

from corral.model import Entry


async def send(entry: Entry, setting: str) -> str:  # noqa: ARG001 -- it says nothing but that something waits
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.flush()
            sys.stderr.buffer.write(b"\a")  # as text it would be shown, not rung
            sys.stderr.buffer.flush()
    return ""
