"""The lock of a repository's merges, across processes."""

import asyncio
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from corral.world.locks import hold_lock
from tests.rig.waiting import until

SPAWN: Any = multiprocessing.get_context("spawn")


def lock_and_stay(folder: str) -> None:
    async def stay() -> None:
        async with hold_lock(Path(folder) / "locks" / "merge"):
            Path(folder, "locked").touch()
            await asyncio.Event().wait()

    asyncio.run(stay())


def try_lock(folder: str) -> None:
    async def take() -> None:
        async with asyncio.timeout(2):
            async with hold_lock(Path(folder) / "locks" / "merge"):
                pass

    try:
        asyncio.run(take())
    except TimeoutError:
        sys.exit(7)


def test_the_merge_lock_holds_across_processes_and_dies_with_its_holder(tmp_path: Path) -> None:
    holder = SPAWN.Process(target=lock_and_stay, args=(str(tmp_path),))
    holder.start()
    until((tmp_path / "locked").exists, "the lock is held")
    codes: list[int] = []
    for _ in range(2):
        other = SPAWN.Process(target=try_lock, args=(str(tmp_path),))
        other.start()
        other.join()
        codes.append(other.exitcode)
        if holder.is_alive():
            holder.kill()
            holder.join()
    assert codes == [7, 0]
