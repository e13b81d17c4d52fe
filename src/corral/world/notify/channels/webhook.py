"""An address the entry is posted to, as JSON."""

from __future__ import annotations

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import body


async def send(entry: Entry, setting: str) -> str:
    """Post it, a few times if need be."""
    return await post_again("webhook", setting, {"Content-Type": "application/json"}, body(entry))
