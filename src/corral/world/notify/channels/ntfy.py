"""A topic of ntfy, by its address; a token in NTFY_TOKEN is sent along."""

from __future__ import annotations

import os

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import message


async def send(entry: Entry, setting: str) -> str:
    """Publish it as a message of the topic."""
    headers = {"Title": f"Corral: run {entry.run} waits", "Tags": "question", "Content-Type": "text/plain"}
    if token := os.environ.get("NTFY_TOKEN", "").strip():
        headers["Authorization"] = f"Bearer {token}"
    return await post_again("ntfy", setting, headers, message(entry).encode())
