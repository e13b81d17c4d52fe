"""Show it on the desktop (`notify-send`)."""

from __future__ import annotations

import os
import shutil

from corral.model import Entry
from corral.world.notify.notify import run_program


async def send(entry: Entry, setting: str) -> str:  # noqa: ARG001 -- it is on or off
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not has_screen or not shutil.which("notify-send"):
        return ""
    words = f"{entry.text[:300]}\ncorral answer {entry.id} ..."
    return await run_program(["notify-send", "--app-name=corral", "--", f"corral: {entry.about}", words], entry)
