"""A shell command of the user's; it gets the entry as JSON on stdin."""

from __future__ import annotations

from corral.model import Entry
from corral.world.notify.notify import run_program


async def send(entry: Entry, setting: str) -> str:
    return await run_program(["/bin/sh", "-c", setting], entry)
