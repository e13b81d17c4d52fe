"""Whether a `git gc` was at work in a repository while objects were written that no ref led to yet."""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from corral.world.git import Repository

QUIET_SECONDS = 60.0  #: how long the end of a `git gc` is waited for


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
        return cls(changed, (repository.git_dir / "gc.pid").exists())

    def passed_quietly(self, repository: Repository) -> bool:
        """Tell whether no `git gc` was at work since: it could have taken objects before a ref led to them.

        It leaves a file in the repository's folder while it works; other programs change that folder as well.
        """
        return not self.tidying and Moment.of(repository) == self


async def quiet(repository: Repository) -> None:
    """Wait until no `git gc` is at work, for a while."""
    until = time.monotonic() + QUIET_SECONDS
    while (repository.git_dir / "gc.pid").exists() and time.monotonic() < until:  # noqa: ASYNC110 -- another program's
        await asyncio.sleep(0.02)
