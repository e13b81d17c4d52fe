"""Posts to web addresses of the user's: no redirects, no long waits, little of the answer read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

SECONDS = 15.0
MOST_ANSWER = 500


async def post(address: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Post a body; return the status and the beginning of the answer, or 0 and what went wrong.

    The words hold nothing of the address: parts of it may be secret.
    """
    return await asyncio.to_thread(_post, address, dict(headers), body)


def _post(address: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
    import http.client  # noqa: PLC0415 -- slow to load, and seldom needed
    import ssl  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415

    connection: http.client.HTTPConnection | None = None
    try:
        parts = urlsplit(address)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(MOST_ANSWER).decode(errors="replace")
    except TimeoutError:
        return 0, "it did not answer in time"
    except OSError as error:
        return 0, os.strerror(error.errno) if error.errno and error.errno > 0 else "it cannot be reached"
    except (ValueError, http.client.HTTPException):
        return 0, "the address is invalid, or the answer is not HTTP"
    finally:
        if connection:
            connection.close()
