"""A chat of Telegram by its number; the bot's token is in TELEGRAM_BOT_TOKEN."""

from __future__ import annotations

import json
from typing import Any

from corral.model import Entry
from corral.world.notify.http_post import bot_address, post_again
from corral.world.notify.notify import AnswerWays, message


async def send(entry: Entry, setting: str) -> str:
    """Have the bot say it in the chat."""
    return await _say(setting, message(entry), {})


async def send_answerable(entry: Entry, setting: str, answers: AnswerWays) -> str:
    """Have the bot say it with a button for each choice, if someone may use them."""
    if not answers.settings.telegram_users:
        return await send(entry, setting)
    if not entry.choices:
        return await _say(setting, f"{message(entry)}\n\nAnswer here: /answer {entry.id} WORDS", {})
    pairs = zip(entry.choices, answers.codes, strict=True)
    keys = [[{"text": choice, "callback_data": code}] for choice, code in pairs]
    return await _say(setting, message(entry), {"reply_markup": {"inline_keyboard": keys}})


async def _say(setting: str, text: str, more: dict[str, Any]) -> str:
    address = bot_address("sendMessage")
    if not address:
        return "telegram: there is no token in TELEGRAM_BOT_TOKEN"
    said = {"chat_id": setting, "text": text, "disable_web_page_preview": True, **more}
    return await post_again("telegram", address, {"Content-Type": "application/json"}, json.dumps(said).encode())
