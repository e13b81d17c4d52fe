"""An incoming webhook of Slack, by its address; the entry is a message there."""

from __future__ import annotations

import json

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import message

ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  #: else a text could mention a channel


async def send(entry: Entry, setting: str) -> str:
    """Post it to the channel of the webhook."""
    text = {"text": message(entry).translate(ESCAPES), "unfurl_links": False}
    return await post_again("slack", setting, {"Content-Type": "application/json"}, json.dumps(text).encode())
