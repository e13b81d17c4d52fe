"""Locks by name: one process at a time, over all machines of a store; gone with their holder."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from corral.store.parts.runs import Runs
from corral.world.locks import LockHeld
from tests.rig.stores import opened

HOLDER = """
import asyncio, sys
from pathlib import Path
from corral.store.opening import open_store

async def main():
    async with open_store(Path(sys.argv[1])).lock(sys.argv[2]):
        print("holds it", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    return opened(tmp_path / "here")


def another(kind: str, tmp_path: Path) -> Path:
    """Return the state folder of another process: of another machine where machines can share a store."""
    return tmp_path / ("far" if kind == "postgres" else "here")


async def take(store: Runs, name: str) -> None:
    async with store.lock(name, holder_seconds=0.05):
        pass


def test_a_lock_keeps_others_out_until_its_holder_is_killed(kind: str, store: Runs, tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDER, str(another(kind, tmp_path)), "merge-shop"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"holds it\n"
        with pytest.raises(LockHeld, match=f"process {holder.pid}") as refused:
            asyncio.run(take(store, "merge-shop"))
        assert "merge-shop" in str(refused.value)
        asyncio.run(take(store, "merge-other"))  # another name is another lock
        holder.kill()
        holder.wait()
    asyncio.run(take(store, "merge-shop"))


def test_two_tasks_of_one_process_take_turns(store: Runs) -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        async with store.lock("clean"):
            seen.append(name)
            await asyncio.sleep(0)
            seen.append(name)

    async def both() -> None:
        await asyncio.gather(work("a"), work("b"))

    asyncio.run(both())
    assert seen in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
