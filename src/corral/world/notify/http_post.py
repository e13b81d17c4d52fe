"""Posts to web addresses of the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from corral.world.http_client import exchange


async def post(address: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Post a body; return the status and the beginning of the answer, or 0 and what went wrong.

    The words hold nothing of the address: parts of it may be secret.
    """
    answer = await asyncio.to_thread(exchange, "POST", address, headers, body)
    return answer.status, answer.body.decode(errors="replace") if answer.status else answer.trouble
