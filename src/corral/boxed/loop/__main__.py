"""python -m corral.boxed.loop PROVIDER MODEL [--session ID] [--read-only]        (the prompt comes on stdin)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from corral.boxed.loop.event_lines import tell
from corral.boxed.loop.settings import LoopSettings, Unready, read
from corral.model import Failure
from corral.model.events import Ended


def main() -> None:
    try:
        settings = read(sys.argv[1:], os.environ)
        ended = asyncio.run(_work(settings, sys.stdin.buffer.read().decode(errors="replace")))
    except Unready as unready:
        ended = Ended(ok=False, text=unready.failure.message, error=unready.failure)
    tell(ended)
    sys.exit(0 if ended.ok else 1)


async def _work(settings: LoopSettings, prompt: str) -> Ended:
    try:
        from corral.boxed.loop import session  # noqa: PLC0415 -- asking for --version needs none of it
    except ImportError as error:
        return Ended(ok=False, error=Failure("not_found", f"{error.name} is missing", "pip install 'corral[api]'"))
    return await session.run(settings, prompt, Path.cwd(), Path.home())


if __name__ == "__main__":
    main()
