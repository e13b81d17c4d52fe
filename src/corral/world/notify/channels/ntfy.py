"""A topic of ntfy, by its address; a token in NTFY_TOKEN is sent along."""

from __future__ import annotations

import json
import os

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import AnswerWays, message

MOST_BUTTONS = 3  #: that ntfy shows


async def send(entry: Entry, setting: str) -> str:
    """Publish it as a message of the topic."""
    return await _publish(entry, setting, {})


async def send_answerable(entry: Entry, setting: str, answers: AnswerWays) -> str:
    """Publish it with buttons that answer at once; where there are too many choices, with one that opens them all."""
    if not answers.settings.answer_url:
        return await send(entry, setting)
    if 0 < len(entry.choices) <= MOST_BUTTONS:
        buttons = [
            {"action": "http", "label": choice, "url": answers.link(code), "method": "POST", "clear": True}
            for choice, code in zip(entry.choices, answers.codes, strict=True)
        ]
    else:
        buttons = [{"action": "view", "label": "Answer", "url": answers.link(answers.open_code), "clear": True}]
    return await _publish(entry, setting, {"Actions": json.dumps(buttons)})


async def _publish(entry: Entry, setting: str, more: dict[str, str]) -> str:
    headers = {"Title": f"Corral: run {entry.run} waits", "Tags": "question", "Content-Type": "text/plain", **more}
    if token := os.environ.get("NTFY_TOKEN", "").strip():
        headers["Authorization"] = f"Bearer {token}"
    return await post_again("ntfy", setting, headers, message(entry).encode())
