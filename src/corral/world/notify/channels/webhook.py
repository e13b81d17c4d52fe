"""An address the entry is posted to, as JSON."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

from corral.model import Entry
from corral.world.notify import http_post
from corral.world.notify.notify import body

AGAIN_SECONDS = (1.0, 4.0)  #: after each try that failed; then it is told that it did
TOO_MANY = 429


async def send(entry: Entry, setting: str) -> str:
    """Post it, a few times if need be; nothing is told of the address but its host, for the rest may be secret."""
    status, words = 0, ""
    for wait in (0.0, *AGAIN_SECONDS):
        await asyncio.sleep(wait)
        status, words = await http_post.post(setting, {"Content-Type": "application/json"}, body(entry))
        if 200 <= status < 300:
            return ""
        if 400 <= status < 500 and status != TOO_MANY:
            break
    host = ""
    with contextlib.suppress(ValueError):
        host = urlsplit(setting).hostname or ""
    return f"webhook{f' at {host}' if host else ''}: {f'it answered {status}' if status else words}"
