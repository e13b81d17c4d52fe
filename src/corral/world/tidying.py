"""Whether a `git gc` was at work in a repository while objects were written that no ref led to yet."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

from msgspec import Struct

from corral.world.git import Repository

QUIET_SECONDS = 20.0  #: how long the end of a `git gc` is waited for
OLDEST_SECONDS = 12 * 3600.0  #: git itself takes an older mark for one that was left behind


class Moment(Struct, frozen=True):
    """What a repository's folder looked like at a moment, to see whether git tidied up since."""

    changed: int | None
    tidying: bool

    @classmethod
    def of(cls, repository: Repository) -> Moment:
        try:
            changed = repository.git_dir.stat().st_mtime_ns
        except OSError:
            changed = None
        return cls(changed, _at_work(repository.git_dir / "gc.pid"))

    def passed_quietly(self, repository: Repository) -> bool:
        """Tell whether no `git gc` was at work since: it could have taken objects before a ref led to them.

        It leaves a file in the repository's folder while it works; other programs change that folder as well.
        """
        return not self.tidying and Moment.of(repository) == self


async def quiet(repository: Repository) -> None:
    """Wait until no `git gc` is at work, for a while."""
    until = time.monotonic() + QUIET_SECONDS
    while _at_work(repository.git_dir / "gc.pid") and time.monotonic() < until:  # noqa: ASYNC110 -- another program's
        await asyncio.sleep(0.005)


def _at_work(mark: Path) -> bool:
    """Tell whether the `git gc` that left a mark is alive: one that was killed leaves it behind."""
    try:
        pid, host = mark.read_text().split()
        if time.time() - mark.stat().st_mtime > OLDEST_SECONDS:
            return False
        if host == socket.gethostname():
            os.kill(int(pid), 0)
    except FileNotFoundError:
        return False
    except ProcessLookupError:
        return False
    except (OSError, ValueError):
        return True  # another user's, or half written
    return True
