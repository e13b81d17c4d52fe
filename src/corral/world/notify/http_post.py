"""Send something to a web address of the person's: no redirects, no long waits, little of the answer read."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

SECONDS = 15.0
MOST_ANSWER = 500


async def post(address: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Post a body; return the status and the beginning of the answer, or 0 and what went wrong."""
    return await asyncio.to_thread(_post, address, dict(headers), body)


def _post(address: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
    parts = urlsplit(address)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=SECONDS, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=SECONDS)
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(MOST_ANSWER).decode(errors="replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, f"{type(error).__name__}: {error}"
    finally:
        connection.close()
