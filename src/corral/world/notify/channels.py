"""Tell a person that something waits for them: a bell, the desktop, a command of theirs, a web address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from urllib.parse import urlsplit

from corral.config.settings import Notify
from corral.model import ENCODER, Entry, InboxEntry
from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import Start

SECONDS = 20.0
AGAIN_SECONDS = (1.0, 4.0)  #: after each try that failed; then it is told that it did
TOO_MANY = 429


async def notify(entry: Entry, ways: Notify) -> list[str]:
    """Try every way the person wants; return what did not work, in words. None of it can hold up a run for long."""
    if ways.bell:
        _ring()
    tried = [_started(argv, entry) for argv in _commands(entry, ways)]
    if ways.webhook:
        tried.append(_posted(ways.webhook, _body(entry)))
    return [trouble for trouble in await asyncio.gather(*tried) if trouble]


def _ring() -> None:
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.flush()
            sys.stderr.buffer.write(b"\a")  # as text it would be shown, not rung
            sys.stderr.buffer.flush()


def _commands(entry: Entry, ways: Notify) -> list[list[str]]:
    found: list[list[str]] = []
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if ways.desktop and has_screen and shutil.which("notify-send"):
        words = f"{entry.text[:300]}\ncorral answer {entry.id} ..."
        found.append(["notify-send", "--app-name=corral", "--", f"corral: {entry.about}", words])
    if ways.command:
        found.append(["/bin/sh", "-c", ways.command])
    return found


async def _started(argv: list[str], entry: Entry) -> str:
    told = {"CORRAL_INBOX": entry.id, "CORRAL_RUN": entry.run, "CORRAL_KIND": entry.kind, "CORRAL_ABOUT": entry.about}
    start = Start(argv=argv, env={**os.environ, **told}, stdin=_body(entry) + b"\n")
    try:
        finished = await process.run(start, timeout=SECONDS)
    except CorralError as error:
        return f"[notify] {argv[-1]}: {error}"
    return "" if finished.code == 0 else f"[notify] {argv[-1]}: it ended with {finished.code}"


def _body(entry: Entry) -> bytes:
    return ENCODER.encode(InboxEntry.of(entry))


async def _posted(address: str, body: bytes) -> str:
    """Post to a web address, a few times if need be; nothing is told of it but its host, for the rest may be secret."""
    words = ""
    for wait in (0.0, *AGAIN_SECONDS):
        await asyncio.sleep(wait)
        status, words = await asyncio.to_thread(_post, address, body)
        if not words or (400 <= status < 500 and status != TOO_MANY):
            break
    host = ""
    with contextlib.suppress(ValueError):
        host = urlsplit(address).hostname or ""
    return f"[notify] webhook{f' at {host}' if host else ''}: {words}" if words else ""


def _post(address: str, body: bytes) -> tuple[int, str]:
    """Post once; return the status and what went wrong, in words that hold nothing of the address."""
    import http.client  # noqa: PLC0415 -- dear to load, and seldom needed
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    try:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310 -- http(s), as settings hold it
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return answer.status, ""
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, f"it answered {error.code}"
    except TimeoutError:
        return 0, "it did not answer in time"
    except OSError as error:  # its words may hold the address: what the system says of it is enough
        reason = getattr(error, "reason", error)
        number = reason.errno if isinstance(reason, OSError) else None
        return 0, os.strerror(number) if number and number > 0 else "it cannot be reached"
    except (ValueError, http.client.HTTPException):
        return 0, "its address is none, or what answered is no web server"
