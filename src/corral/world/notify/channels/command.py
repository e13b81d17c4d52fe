"""A shell command of the user's; it gets the entry as JSON on stdin."""

from __future__ import annotations

import os

from corral.model import Entry
from corral.model.errors import CorralError
from corral.world import process
from corral.world.notify.notify import body
from corral.world.process import ProcessStart

SECONDS = 20.0


async def send(entry: Entry, setting: str) -> str:
    return await start(["/bin/sh", "-c", setting], entry)


async def start(argv: list[str], entry: Entry) -> str:
    """Start a program that tells the user; return what went wrong."""
    about = {"CORRAL_INBOX": entry.id, "CORRAL_RUN": entry.run, "CORRAL_KIND": entry.kind, "CORRAL_ABOUT": entry.about}
    begin = ProcessStart(argv=argv, env={**os.environ, **about}, stdin=body(entry) + b"\n")
    try:
        finished = await process.run(begin, timeout=SECONDS)
    except CorralError as error:
        return f"{argv[-1]}: {error}"
    return "" if finished.code == 0 else f"{argv[-1]}: it ended with {finished.code}"
