"""Posts to web addresses of the user's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from urllib.parse import urlsplit

from corral.world.http_client import exchange

AGAIN_SECONDS = (1.0, 4.0)  #: after each try that failed; then it is told that it did
TOO_MANY = 429


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
