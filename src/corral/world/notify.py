"""Tell a person that something waits for them: a bell, the desktop, a command of theirs, a web address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys

from corral.config.shapes import Notify
from corral.errors import CorralError
from corral.model import ENCODER, Entry
from corral.world import process
from corral.world.process import Start

SECONDS = 20.0


async def notify(entry: Entry, ways: Notify) -> list[str]:
    """Try every way the person wants; return what did not work, in words. None of it can hold up a run for long."""
    if ways.bell:
        _ring()
    tried = [_started(argv, entry) for argv in _commands(entry, ways)]
    if ways.webhook:
        tried.append(asyncio.to_thread(_post, ways.webhook, ENCODER.encode(entry)))
    return [trouble for trouble in await asyncio.gather(*tried) if trouble]


def _ring() -> None:
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.write("\a")
            sys.stderr.flush()


def _commands(entry: Entry, ways: Notify) -> list[list[str]]:
    found: list[list[str]] = []
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if ways.desktop and has_screen and shutil.which("notify-send"):
        words = f"{entry.text[:300]}\ncorral answer {entry.id} ..."
        found.append(["notify-send", "--app-name=corral", "--", f"corral: {entry.about}", words])
    if ways.command:
        found.append(["/bin/sh", "-c", ways.command])
    return found


async def _started(argv: list[str], entry: Entry) -> str:
    told = {"CORRAL_INBOX": entry.id, "CORRAL_RUN": entry.run, "CORRAL_KIND": entry.kind, "CORRAL_ABOUT": entry.about}
    start = Start(argv=argv, env={**os.environ, **told}, stdin=ENCODER.encode(entry) + b"\n")
    try:
        finished = await process.run(start, timeout=SECONDS)
    except CorralError as error:
        return f"[notify] {argv[-1]}: {error}"
    return "" if finished.code == 0 else f"[notify] {argv[-1]}: it ended with {finished.code}"


def _post(address: str, body: bytes) -> str:
    import urllib.request  # noqa: PLC0415 -- dear to load, and seldom needed

    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310 -- http(s), as settings hold it
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
            return ""
    except (OSError, ValueError) as error:
        return f"[notify] webhook: {error}"
