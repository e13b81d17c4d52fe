"""Posts to web addresses of the user's, and calls of a bot of Telegram."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from corral.world.http_client import exchange

AGAIN_SECONDS = (1.0, 4.0)  #: after each try that failed; then the failure is reported
TOO_MANY = 429
TELEGRAM = "https://api.telegram.org"
MOST_ANSWER = 1 << 20  #: bytes of what the bot's server answers


async def post(address: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Post a body; return the status and the beginning of the answer, or 0 and what went wrong.

    The words hold nothing of the address: parts of it may be secret.
    """
    answer = await asyncio.to_thread(exchange, "POST", address, headers, body)
    return answer.status, answer.body.decode(errors="replace") if answer.status else answer.trouble


async def post_again(name: str, address: str, headers: Mapping[str, str], body: bytes) -> str:
    """Post, a few times if need be; return what went wrong. Of the address only its host is named."""
    status, words = 0, ""
    for wait in (0.0, *AGAIN_SECONDS):
        await asyncio.sleep(wait)
        status, words = await post(address, headers, body)
        if 200 <= status < 300:
            return ""
        if 400 <= status < 500 and status != TOO_MANY:
            break
    host = ""
    with contextlib.suppress(ValueError):
        host = urlsplit(address).hostname or ""
    return f"{name}{f' at {host}' if host else ''}: {f'it answered {status}' if status else words}"


async def call_bot(method: str, said: dict[str, Any]) -> dict[str, Any]:
    """Call a method of the bot; return what it answered, or {"ok": false} with a description without secrets."""
    address = bot_address(method)
    if not address:
        return {"ok": False, "description": "there is no token in TELEGRAM_BOT_TOKEN"}
    headers = {"Content-Type": "application/json"}
    got = await asyncio.to_thread(exchange, "POST", address, headers, json.dumps(said).encode(), MOST_ANSWER)
    try:
        found = json.loads(got.body)
    except ValueError:
        found = None
    if isinstance(found, dict) and "ok" in found:
        return found  # pyright: ignore[reportUnknownVariableType] -- its names are text, as in all JSON
    return {"ok": False, "description": f"it answered {got.status}" if got.status else got.trouble}


def bot_address(method: str) -> str:
    """Return the address of a method of the bot, which has its token; nothing where there is no token."""
    token = os.environ.get("TELEGRAM_BOT_TOKEN", "").strip()
    return f"{os.environ.get('TELEGRAM_API_URL') or TELEGRAM}/bot{token}/{method}" if token else ""
