"""A chat of Telegram by its number; the bot's token is in TELEGRAM_BOT_TOKEN."""

from __future__ import annotations

import json
import os

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import message

ADDRESS = "https://api.telegram.org"


async def send(entry: Entry, setting: str) -> str:
    """Have the bot say it in the chat."""
    token = os.environ.get("TELEGRAM_BOT_TOKEN", "").strip()
    if not token:
        return "telegram: there is no token in TELEGRAM_BOT_TOKEN"
    address = f"{os.environ.get('TELEGRAM_API_URL') or ADDRESS}/bot{token}/sendMessage"
    said = {"chat_id": setting, "text": message(entry), "disable_web_page_preview": True}
    return await post_again("telegram", address, {"Content-Type": "application/json"}, json.dumps(said).encode())
